package rank

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
	heaps    map[[2]int]*heap
	versions []uint32
}

// NewBoard makes an empty board for nodes with indexes below size.
func NewBoard(size int) *Board {
	return &Board{heaps: map[[2]int]*heap{}, versions: make([]uint32, size)}
}

// Put adds a node, or replaces what was known of it.
func (b *Board) Put(c Candidate) {
	b.versions[c.Node]++
	b.push(c)
}

func (b *Board) push(c Candidate) {
	key := [2]int{c.Tuple, c.Parts}
	h := b.heaps[key]
	if h == nil {
		h = &heap{}
		b.heaps[key] = h
	}
	h.push(entry{c, b.versions[c.Node]})
}

// Drop removes a node.
func (b *Board) Drop(node int) { b.versions[node]++ }

// Best is the node with the highest score. boost is what spreading adds for a tuple. Nodes in avoid get
// the penalty as one more part. It answers false when the board is empty.
func (b *Board) Best(boost func(tuple int) float64, avoid map[int]bool) (Candidate, bool) {
	var best Candidate
	found := false
	var aside []entry
	consider := func(c Candidate) {
		if x := boost(c.Tuple); x != 0 {
			c.Sum, c.Parts = c.Sum+x, c.Parts+1
		}
		if !found || better(c, best) {
			best, found = c, true
		}
	}
	for key, h := range b.heaps {
		for h.len() > 0 {
			top := h.top()
			if top.version != b.versions[top.Node] {
				h.pop()
				continue
			}
			if !avoid[top.Node] {
				consider(top.Candidate)
				break
			}
			aside = append(aside, h.pop())
			c := top.Candidate
			c.Sum, c.Parts = c.Sum-1, c.Parts+1
			consider(c)
		}
		if h.len() == 0 {
			delete(b.heaps, key)
		}
	}
	for _, e := range aside {
		b.push(e.Candidate)
	}
	return best, found
}

func better(a, b Candidate) bool {
	if x, y := a.Mean(), b.Mean(); x != y {
		return x > y
	}
	return a.Tie < b.Tie || a.Tie == b.Tie && a.Node < b.Node
}

type entry struct {
	Candidate
	version uint32
}

// heap is a binary heap; container/heap would box every entry.
type heap struct{ list []entry }

func (h *heap) len() int   { return len(h.list) }
func (h *heap) top() entry { return h.list[0] }

func (h *heap) before(i, j int) bool { return better(h.list[i].Candidate, h.list[j].Candidate) }

func (h *heap) push(e entry) {
	h.list = append(h.list, e)
	for i := len(h.list) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.before(i, parent) {
			return
		}
		h.list[i], h.list[parent] = h.list[parent], h.list[i]
		i = parent
	}
}

func (h *heap) pop() entry {
	top, last := h.list[0], len(h.list)-1
	h.list[0] = h.list[last]
	h.list = h.list[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return top
		}
		if child+1 < last && h.before(child+1, child) {
			child++
		}
		if !h.before(child, i) {
			return top
		}
		h.list[i], h.list[child] = h.list[child], h.list[i]
		i = child
	}
}
