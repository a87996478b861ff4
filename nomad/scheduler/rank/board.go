package rank

import "slices"

// Candidate is a feasible node: its index in the fleet, its spread values, and the parts of its score
// that are its own.
type Candidate struct {
	Node  int
	Tuple int
	// Sum and Parts are the sum and the number of the parts.
	Sum   float64
	Parts int
	// Tie orders equal scores.
	Tie uint32
}

// Mean is the score.
func (c Candidate) Mean() float64 { return c.Sum / float64(max(c.Parts, 1)) }

// Board is the set of feasible nodes, best first.
type Board struct {
	heaps    map[group]*heap
	versions []uint32
}

// group are the nodes among which the order of sums is the order of scores.
type group struct{ tuple, parts int }

// NewBoard makes an empty board for nodes with indexes below size.
func NewBoard(size int) *Board {
	return &Board{heaps: map[group]*heap{}, versions: make([]uint32, size)}
}

// Grow makes room for nodes with indexes below size.
func (b *Board) Grow(size int) {
	if more := size - len(b.versions); more > 0 {
		b.versions = append(b.versions, make([]uint32, more)...)
	}
}

// Put adds a node, or replaces what was known of it.
func (b *Board) Put(c Candidate) {
	b.versions[c.Node]++
	b.push(c)
}

func (b *Board) push(c Candidate) {
	g := group{c.Tuple, c.Parts}
	h := b.heaps[g]
	if h == nil {
		h = &heap{}
		if len(b.heaps) == 0 {
			// Most boards have one group for nearly all nodes.
			h.list = make([]entry, 0, len(b.versions))
		}
		b.heaps[g] = h
	}
	if len(h.list) > 2*len(b.versions)+64 {
		h.compact(b.versions)
	}
	h.push(entry{sum: c.Sum, node: int32(c.Node), tie: c.Tie, version: b.versions[c.Node]})
}

// Drop removes a node.
func (b *Board) Drop(node int) { b.versions[node]++ }

// Best is the node with the highest score. boost is what spreading adds for a tuple. Nodes in avoid get
// the penalty as one more part. It answers false when the board is empty.
func (b *Board) Best(boost func(tuple int) float64, avoid map[int]bool) (Candidate, bool) {
	_, best, found := b.best(boost, avoid)
	return best, found
}

// best answers the best node as it is on the board, and with what the occasion adds.
func (b *Board) best(boost func(tuple int) float64, avoid map[int]bool) (own, best Candidate, found bool) {
	var aside []Candidate
	consider := func(as, c Candidate) {
		if x := boost(c.Tuple); x != 0 {
			c.Sum, c.Parts = c.Sum+x, c.Parts+1
		}
		if !found || better(c, best) {
			own, best, found = as, c, true
		}
	}
	for g, h := range b.heaps {
		for h.len() > 0 {
			top := h.top()
			if top.version != b.versions[top.node] {
				h.pop()
				continue
			}
			c := Candidate{Node: int(top.node), Tuple: g.tuple, Sum: top.sum, Parts: g.parts, Tie: top.tie}
			if !avoid[c.Node] {
				consider(c, c)
				break
			}
			h.pop()
			aside = append(aside, c)
			punished := c
			punished.Sum, punished.Parts = c.Sum-1, c.Parts+1
			consider(c, punished)
		}
		if h.len() == 0 {
			delete(b.heaps, g)
		}
	}
	for _, c := range aside {
		b.push(c)
	}
	return own, best, found
}

// Top are the n best nodes, best first.
func (b *Board) Top(n int, boost func(tuple int) float64) []Candidate {
	var top, aside []Candidate
	for len(top) < n {
		own, best, ok := b.best(boost, nil)
		if !ok {
			break
		}
		top, aside = append(top, best), append(aside, own)
		b.Drop(own.Node)
	}
	for _, c := range aside {
		b.Put(c)
	}
	return top
}

func better(a, b Candidate) bool {
	if x, y := a.Mean(), b.Mean(); x != y {
		return x > y
	}
	return a.Tie < b.Tie || a.Tie == b.Tie && a.Node < b.Node
}

// entry is a candidate of a group; it is out of date when the node has another version.
type entry struct {
	sum     float64
	node    int32
	tie     uint32
	version uint32
}

func (e *entry) before(o *entry) bool {
	if e.sum != o.sum {
		return e.sum > o.sum
	}
	return e.tie < o.tie || e.tie == o.tie && e.node < o.node
}

// heap is a binary heap; container/heap would box every entry. It is put in order when it is first read,
// so that filling it costs little.
type heap struct {
	list    []entry
	ordered bool
}

func (h *heap) len() int { return len(h.list) }

func (h *heap) top() entry {
	h.order()
	return h.list[0]
}

func (h *heap) order() {
	if h.ordered {
		return
	}
	h.ordered = true
	for i := len(h.list)/2 - 1; i >= 0; i-- {
		h.sink(i)
	}
}

func (h *heap) push(e entry) {
	h.list = append(h.list, e)
	if !h.ordered {
		return
	}
	for i := len(h.list) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.list[i].before(&h.list[parent]) {
			return
		}
		h.list[i], h.list[parent] = h.list[parent], h.list[i]
		i = parent
	}
}

// compact forgets what is out of date.
func (h *heap) compact(versions []uint32) {
	h.list = slices.DeleteFunc(h.list, func(e entry) bool { return e.version != versions[e.node] })
	h.ordered = false
}

func (h *heap) pop() {
	h.order()
	last := len(h.list) - 1
	h.list[0] = h.list[last]
	h.list = h.list[:last]
	h.sink(0)
}

func (h *heap) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.list) {
			return
		}
		if child+1 < len(h.list) && h.list[child+1].before(&h.list[child]) {
			child++
		}
		if !h.list[child].before(&h.list[i]) {
			return
		}
		h.list[i], h.list[child] = h.list[child], h.list[i]
		i = child
	}
}
