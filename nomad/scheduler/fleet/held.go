package fleet

import (
	"iter"
	"slices"
)

// recentMax is how many changes of a row are kept apart before they are merged.
const recentMax = 32

// held are the loads of one row. What changed lately is kept apart, so that a row with many loads is copied
// at the cost of the few that change. Copies share base; it is never changed.
type held struct {
	base   []holding
	recent []holding
	// gone are those of base that no longer count.
	gone []string
}

// holding is the load of one allocation.
type holding struct {
	alloc string
	Load
}

func find(list []holding, alloc string) int {
	return slices.IndexFunc(list, func(h holding) bool { return h.alloc == alloc })
}

func (h *held) len() int { return len(h.base) - len(h.gone) + len(h.recent) }

func (h *held) has(alloc string) bool {
	return find(h.recent, alloc) >= 0 || find(h.base, alloc) >= 0 && !slices.Contains(h.gone, alloc)
}

func (h *held) all() iter.Seq2[string, Load] {
	return func(yield func(string, Load) bool) {
		for _, x := range h.recent {
			if !yield(x.alloc, x.Load) {
				return
			}
		}
		for _, x := range h.base {
			if !slices.Contains(h.gone, x.alloc) && !yield(x.alloc, x.Load) {
				return
			}
		}
	}
}

// own makes the copy independent of the one that it was made from.
func (h *held) own() {
	h.recent, h.gone = slices.Clone(h.recent), slices.Clone(h.gone)
}

// add counts a load of an allocation that has none.
func (h *held) add(alloc string, l Load) { h.recent = append(h.recent, holding{alloc, l}) }

func (h *held) remove(alloc string) (Load, bool) {
	if i := find(h.recent, alloc); i >= 0 {
		l, last := h.recent[i].Load, len(h.recent)-1
		h.recent[i] = h.recent[last]
		h.recent = h.recent[:last]
		return l, true
	}
	i := find(h.base, alloc)
	if i < 0 || slices.Contains(h.gone, alloc) {
		return Load{}, false
	}
	h.gone = append(h.gone, alloc)
	return h.base[i].Load, true
}

// settle merges what changed when it is much.
func (h *held) settle() {
	if len(h.recent)+len(h.gone) <= recentMax {
		return
	}
	merged := make([]holding, 0, h.len())
	for alloc, l := range h.all() {
		merged = append(merged, holding{alloc, l})
	}
	*h = held{base: merged}
}
