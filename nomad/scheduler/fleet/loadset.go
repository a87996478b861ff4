package fleet

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
)

// loadSet are the loads of one row. What changed lately is kept apart, so that a row with many loads is copied
// at the cost of the few that change. Copies share base; it is never changed.
type loadSet struct {
	base   []heldLoad // in order
	recent []heldLoad
	// gone are the positions of those in base that no longer count.
	gone []int32
}

// heldLoad is the load of one allocation. Searches compare digests; they rarely get to read the id, which
// is somewhere else in memory.
type heldLoad struct {
	digest   uint32
	priority int32
	alloc    string
	amount   Amount
	sole     *Exclusive
}

func newHeldLoad(alloc string, l Load) heldLoad {
	return heldLoad{digestOf(alloc), int32(l.Priority), alloc, l.Amount, l.Exclusive}
}

func (h *heldLoad) load() Load { return Load{h.amount, int(h.priority), h.sole} }

func (h *heldLoad) is(digest uint32, alloc string) bool {
	return h.digest == digest && h.alloc == alloc
}

func inOrder(a, b heldLoad) int {
	return cmp.Or(cmp.Compare(a.digest, b.digest), cmp.Compare(a.alloc, b.alloc))
}

// digestOf tells most ids apart.
func digestOf(id string) uint32 {
	const prime = 0x9e3779b97f4a7c15
	h := uint64(len(id))
	for ; len(id) >= 8; id = id[8:] {
		h = (h ^ binary.LittleEndian.Uint64([]byte(id[:8]))) * prime
		h ^= h >> 32
	}
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * prime
		h ^= h >> 32
	}
	return uint32(h)
}

func (h *loadSet) len() int { return len(h.base) - len(h.gone) + len(h.recent) }

// position is where a load is: at a position in recent, or of base.
type position struct {
	recent   bool
	position int
}

func (h *loadSet) find(alloc string) (position, bool) {
	digest := digestOf(alloc)
	for i := range h.recent {
		if h.recent[i].is(digest, alloc) {
			return position{true, i}, true
		}
	}
	i, _ := slices.BinarySearchFunc(h.base, digest, func(x heldLoad, d uint32) int { return cmp.Compare(x.digest, d) })
	for ; i < len(h.base) && h.base[i].digest == digest; i++ {
		if h.base[i].alloc == alloc && !slices.Contains(h.gone, int32(i)) {
			return position{false, i}, true
		}
	}
	return position{}, false
}

func (h *loadSet) all() iter.Seq2[string, Load] {
	return func(yield func(string, Load) bool) {
		for i := range h.recent {
			if x := &h.recent[i]; !yield(x.alloc, x.load()) {
				return
			}
		}
		for i := range h.base {
			if x := &h.base[i]; !slices.Contains(h.gone, int32(i)) && !yield(x.alloc, x.load()) {
				return
			}
		}
	}
}

// own makes the copy independent of the one that it was made from, with capacity for one more.
func (h *loadSet) own() {
	h.recent, h.gone = append(make([]heldLoad, 0, len(h.recent)+1), h.recent...), slices.Clone(h.gone)
}

// add counts a load of an allocation that has none.
func (h *loadSet) add(alloc string, l Load) { h.recent = append(h.recent, newHeldLoad(alloc, l)) }

func (h *loadSet) remove(at position) Load {
	if !at.recent {
		h.gone = append(h.gone, int32(at.position))
		return h.base[at.position].load()
	}
	l, last := h.recent[at.position].load(), len(h.recent)-1
	h.recent[at.position] = h.recent[last]
	h.recent = h.recent[:last]
	return l
}

// compact merges what changed when it is much. Merging costs what all loads are, copying what changed: the
// square root keeps both small.
func (h *loadSet) compact() {
	if n := len(h.recent) + len(h.gone); n*n <= 64+2*len(h.base) {
		return
	}
	merged := make([]heldLoad, 0, h.len())
	slices.SortFunc(h.recent, inOrder)
	next := h.recent
	for i, x := range h.base {
		for len(next) > 0 && inOrder(next[0], x) < 0 {
			merged, next = append(merged, next[0]), next[1:]
		}
		if !slices.Contains(h.gone, int32(i)) {
			merged = append(merged, x)
		}
	}
	*h = loadSet{base: append(merged, next...)}
}
