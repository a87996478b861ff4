package rank

// entry is a candidate in a heap.
type entry struct {
	sum  float64
	node int32
	tie  uint32
}

func (e *entry) before(o *entry) bool {
	if e.sum != o.sum {
		return e.sum > o.sum
	}
	return e.tie < o.tie || e.tie == o.tie && e.node < o.node
}

// precedes orders candidates with equal scores.
func (e *entry) precedes(c Candidate) bool {
	return e.tie < c.Tie || e.tie == c.Tie && int(e.node) < c.Node
}

// heap is a binary heap that records the slot of each node; container/heap would box every entry. It is ordered on the
// first read, so that filling it is cheap. The list begins at 1.
type heap struct {
	group   group
	list    []entry
	ordered bool
}

func (h *heap) len() int { return len(h.list) - 1 }

// top returns the first entry, which is valid until the heap changes.
func (h *heap) top(places []place) *entry {
	if !h.ordered {
		h.ordered = true
		for i := h.len() / 2; i > 0; i-- {
			h.sink(i, h.list[i], places)
		}
	}
	return &h.list[1]
}

func (h *heap) candidate(e *entry) Candidate {
	return Candidate{Node: int(e.node), Tuple: h.group.tuple, Sum: e.sum, Parts: h.group.parts, Tie: e.tie}
}

func (h *heap) set(i int, e entry, places []place) {
	h.list[i] = e
	places[e.node].slot = int32(i)
}

func (h *heap) push(e entry, places []place) {
	h.list = append(h.list, e)
	h.replace(h.len(), e, places)
}

// replace replaces the entry at a slot.
func (h *heap) replace(i int, e entry, places []place) {
	if !h.ordered {
		h.set(i, e, places)
		return
	}
	if i > 1 && e.before(&h.list[i/2]) {
		h.rise(i, e, places)
		return
	}
	h.sink(i, e, places)
}

func (h *heap) remove(i int, places []place) {
	places[h.list[i].node].slot = 0
	last := h.len()
	e := h.list[last]
	h.list = h.list[:last]
	if i < last {
		h.replace(i, e, places)
	}
}

func (h *heap) rise(i int, e entry, places []place) {
	for ; i > 1 && e.before(&h.list[i/2]); i /= 2 {
		h.set(i, h.list[i/2], places)
	}
	h.set(i, e, places)
}

func (h *heap) sink(i int, e entry, places []place) {
	for {
		child := 2 * i
		if child >= len(h.list) {
			break
		}
		if child+1 < len(h.list) && h.list[child+1].before(&h.list[child]) {
			child++
		}
		if !h.list[child].before(&e) {
			break
		}
		h.set(i, h.list[child], places)
		i = child
	}
	h.set(i, e, places)
}
