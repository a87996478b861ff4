package fleet

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
)

// held are the loads of one row. What changed lately is kept apart, so that a row with many loads is copied
// at the cost of the few that change. Copies share base; it is never changed.
type held struct {
	base   []holding // in order
	recent []holding
	// gone are the positions of those in base that no longer count.
	gone []int32
}

// holding is the load of one allocation. Searches compare digests; they rarely get to read the id, which
// is somewhere else in memory.
type holding struct {
	digest   uint32
	priority int32
	alloc    string
	amount   Amount
	sole     *Exclusive
}

func newHolding(alloc string, l Load) holding {
	return holding{digestOf(alloc), int32(l.Priority), alloc, l.Amount, l.Exclusive}
}

func (h *holding) load() Load { return Load{h.amount, int(h.priority), h.sole} }

func (h *holding) is(digest uint32, alloc string) bool { return h.digest == digest && h.alloc == alloc }

func inOrder(a, b holding) int {
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

func (h *held) len() int { return len(h.base) - len(h.gone) + len(h.recent) }

// spot is where a load is: at a position in recent, or of base.
type spot struct {
	recent   bool
	position int
}

func (h *held) find(alloc string) (spot, bool) {
	digest := digestOf(alloc)
	for i := range h.recent {
		if h.recent[i].is(digest, alloc) {
			return spot{true, i}, true
		}
	}
	i, _ := slices.BinarySearchFunc(h.base, digest, func(x holding, d uint32) int { return cmp.Compare(x.digest, d) })
	for ; i < len(h.base) && h.base[i].digest == digest; i++ {
		if h.base[i].alloc == alloc && !slices.Contains(h.gone, int32(i)) {
			return spot{false, i}, true
		}
	}
	return spot{}, false
}

func (h *held) all() iter.Seq2[string, Load] {
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
func (h *held) own() {
	h.recent, h.gone = append(make([]holding, 0, len(h.recent)+1), h.recent...), slices.Clone(h.gone)
}

// add counts a load of an allocation that has none.
func (h *held) add(alloc string, l Load) { h.recent = append(h.recent, newHolding(alloc, l)) }

func (h *held) remove(at spot) Load {
	if !at.recent {
		h.gone = append(h.gone, int32(at.position))
		return h.base[at.position].load()
	}
	l, last := h.recent[at.position].load(), len(h.recent)-1
	h.recent[at.position] = h.recent[last]
	h.recent = h.recent[:last]
	return l
}

// settle merges what changed when it is much. Merging costs what all loads are, copying what changed: the
// square root keeps both small.
func (h *held) settle() {
	if n := len(h.recent) + len(h.gone); n*n <= 64+2*len(h.base) {
		return
	}
	merged := make([]holding, 0, h.len())
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
	*h = held{base: append(merged, next...)}
}
