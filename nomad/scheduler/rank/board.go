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

// Board is the set of feasible nodes, best first. Among nodes with equal spread values and as many parts the
// order of sums is the order of scores, so each such group has a heap.
type Board struct {
	groups map[group]int
	heaps  []heap
	// places tell of each node where it is.
	places []place
}

type group struct{ tuple, parts int }

// place is one in a heap; slot 0 is none.
type place struct{ heap, slot int32 }

// NewBoard makes an empty board for nodes with indexes below size.
func NewBoard(size int) *Board {
	return &Board{groups: map[group]int{}, places: make([]place, size)}
}

// Grow allocates for nodes with indexes below size.
func (b *Board) Grow(size int) {
	if more := size - len(b.places); more > 0 {
		b.places = append(b.places, make([]place, more)...)
	}
}

// Put adds a node, or replaces what was known of it.
func (b *Board) Put(c Candidate) {
	i := b.heapOf(group{c.Tuple, c.Parts})
	e := entry{sum: c.Sum, node: int32(c.Node), tie: c.Tie}
	if at := b.places[c.Node]; at.slot > 0 {
		if int(at.heap) == i {
			b.heaps[i].replace(int(at.slot), e, b.places)
			return
		}
		b.Drop(c.Node)
	}
	b.places[c.Node].heap = int32(i)
	b.heaps[i].push(e, b.places)
}

func (b *Board) heapOf(g group) int {
	if n := len(b.heaps) - 1; n >= 0 && b.heaps[n].group == g {
		return n
	}
	i, known := b.groups[g]
	if !known {
		i = len(b.heaps)
		b.groups[g] = i
		h := heap{group: g, list: make([]entry, 1)}
		if i == 0 { // most boards have one group for nearly all nodes
			h.list = make([]entry, 1, len(b.places)+1)
		}
		b.heaps = append(b.heaps, h)
	}
	return i
}

// Drop removes a node.
func (b *Board) Drop(node int) {
	if at := b.places[node]; at.slot > 0 {
		b.heaps[at.heap].remove(int(at.slot), b.places)
	}
}

// Best is the node with the highest score. boost is what spreading adds for a tuple. Nodes in avoid get
// the penalty as one more part. It answers false when the board is empty.
func (b *Board) Best(boost func(tuple int) float64, avoid map[int]bool) (Candidate, bool) {
	_, best, found := b.best(boost, avoid)
	return best, found
}

// best answers the best node as it is on the board, and with what the occasion adds.
func (b *Board) best(boost func(tuple int) float64, avoid map[int]bool) (own, best Candidate, found bool) {
	var aside []Candidate
	score := 0.0
	for i := range b.heaps {
		h := &b.heaps[i]
		if h.len() == 0 {
			continue
		}
		extra := boost(h.group.tuple)
		for h.len() > 0 {
			e := h.top(b.places)
			punished := len(avoid) > 0 && avoid[int(e.node)]
			sum, parts := e.sum, h.group.parts
			if punished {
				sum, parts = sum-1, parts+1
			}
			if extra != 0 {
				sum, parts = sum+extra, parts+1
			}
			if mean := sum / float64(max(parts, 1)); !found || mean > score || mean == score && e.precedes(best) {
				own, score, found = h.candidate(e), mean, true
				best = own
				best.Sum, best.Parts = sum, parts
			}
			if !punished {
				break
			}
			aside = append(aside, h.candidate(e))
			b.Drop(int(e.node))
		}
	}
	for _, c := range aside {
		b.Put(c)
	}
	return own, best, found
}

// Top are the n best nodes, best first.
func (b *Board) Top(n int, boost func(tuple int) float64) []Candidate {
	top, aside := make([]Candidate, 0, n), make([]Candidate, 0, n)
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
