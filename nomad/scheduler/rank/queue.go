package rank

// Candidate is a feasible node: its index in the fleet, its spread values, and the parts of its score that depend on the
// node alone.
type Candidate struct {
	Node  int
	Tuple int
	// Sum and Parts are the sum and the number of the parts.
	Sum   float64
	Parts int
	// Tie orders candidates of equal score.
	Tie uint32
}

// Mean returns the score.
func (c Candidate) Mean() float64 { return c.Sum / float64(max(c.Parts, 1)) }

// Queue is a priority queue of feasible nodes, best first. Nodes with equal spread values and the same number of parts
// share a heap, because among them the order of sums is the order of scores.
type Queue struct {
	groups map[group]int
	heaps  []heap
	// places are the positions of the nodes.
	places []place
}

type group struct{ tuple, parts int }

// place is a position in a heap; slot 0 is none.
type place struct{ heap, slot int32 }

// NewQueue returns an empty queue for nodes with indexes below size.
func NewQueue(size int) *Queue {
	return &Queue{groups: map[group]int{}, places: make([]place, size)}
}

// Grow allocates space for nodes with indexes below size.
func (q *Queue) Grow(size int) {
	if more := size - len(q.places); more > 0 {
		q.places = append(q.places, make([]place, more)...)
	}
}

// Put adds a node or replaces its entry.
func (q *Queue) Put(c Candidate) {
	i := q.heapOf(group{c.Tuple, c.Parts})
	e := entry{sum: c.Sum, node: int32(c.Node), tie: c.Tie}
	if at := q.places[c.Node]; at.slot > 0 {
		if int(at.heap) == i {
			q.heaps[i].replace(int(at.slot), e, q.places)
			return
		}
		q.Drop(c.Node)
	}
	q.places[c.Node].heap = int32(i)
	q.heaps[i].push(e, q.places)
}

func (q *Queue) heapOf(g group) int {
	if n := len(q.heaps) - 1; n >= 0 && q.heaps[n].group == g {
		return n
	}
	i, known := q.groups[g]
	if !known {
		i = len(q.heaps)
		q.groups[g] = i
		h := heap{group: g, list: make([]entry, 1)}
		if i == 0 { // most queues have one group for nearly all nodes
			h.list = make([]entry, 1, len(q.places)+1)
		}
		q.heaps = append(q.heaps, h)
	}
	return i
}

// Drop removes a node.
func (q *Queue) Drop(node int) {
	if at := q.places[node]; at.slot > 0 {
		q.heaps[at.heap].remove(int(at.slot), q.places)
	}
}

// Best returns the node with the highest score, or false when the queue is empty. boost returns the spread part of a
// tuple. Nodes in avoid get the penalty as an additional part.
func (q *Queue) Best(boost func(tuple int) float64, avoid map[int]bool) (Candidate, bool) {
	_, best, found := q.best(boost, avoid)
	return best, found
}

// best returns the best node as it is in the queue, and with boost and penalty.
func (q *Queue) best(boost func(tuple int) float64, avoid map[int]bool) (own, best Candidate, found bool) {
	var aside []Candidate
	score := 0.0
	for i := range q.heaps {
		h := &q.heaps[i]
		if h.len() == 0 {
			continue
		}
		extra := boost(h.group.tuple)
		for h.len() > 0 {
			e := h.top(q.places)
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
			q.Drop(int(e.node))
		}
	}
	for _, c := range aside {
		q.Put(c)
	}
	return own, best, found
}

// Top returns the n best nodes, best first.
func (q *Queue) Top(n int, boost func(tuple int) float64) []Candidate {
	top, aside := make([]Candidate, 0, n), make([]Candidate, 0, n)
	for len(top) < n {
		own, best, ok := q.best(boost, nil)
		if !ok {
			break
		}
		top, aside = append(top, best), append(aside, own)
		q.Drop(own.Node)
	}
	for _, c := range aside {
		q.Put(c)
	}
	return top
}
