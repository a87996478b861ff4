// Package deadlines keeps what is due at a time, by key, the nearest first.
package deadlines

import (
	"container/heap"
	"time"
)

// Heap has at most one deadline for each key, with a value. The zero value is ready; it is for one goroutine at a time.
// Set, Drop and Take cost the logarithm of its length, everything else is constant.
type Heap[K comparable, V any] struct {
	by    map[K]*entry[K, V]
	order order[K, V]
}

type entry[K comparable, V any] struct {
	key   K
	at    time.Time
	value V
	place int
}

// Len is how many deadlines there are.
func (h *Heap[K, V]) Len() int { return len(h.order) }

// Set sets or moves the deadline of a key, and reports whether it is the nearest now.
func (h *Heap[K, V]) Set(key K, at time.Time, value V) (nearest bool) {
	e := h.by[key]
	if e == nil {
		if h.by == nil {
			h.by = map[K]*entry[K, V]{}
		}
		e = &entry[K, V]{key: key, at: at, value: value}
		h.by[key] = e
		heap.Push(&h.order, e)
	} else {
		e.at, e.value = at, value
		heap.Fix(&h.order, e.place)
	}
	return e.place == 0
}

// Get is the value of a key that has a deadline.
func (h *Heap[K, V]) Get(key K) (value V, ok bool) {
	if e := h.by[key]; e != nil {
		return e.value, true
	}
	return value, false
}

// Drop removes the deadline of a key, if it has one.
func (h *Heap[K, V]) Drop(key K) {
	if e := h.by[key]; e != nil {
		heap.Remove(&h.order, e.place)
		delete(h.by, key)
	}
}

// Next is the nearest deadline; false when there is none.
func (h *Heap[K, V]) Next() (time.Time, bool) {
	if len(h.order) == 0 {
		return time.Time{}, false
	}
	return h.order[0].at, true
}

// Take removes the nearest deadline if it is due at now.
func (h *Heap[K, V]) Take(now time.Time) (key K, value V, due bool) {
	if len(h.order) == 0 || h.order[0].at.After(now) {
		return key, value, false
	}
	e := h.order[0]
	h.Drop(e.key)
	return e.key, e.value, true
}

// order implements [heap.Interface].
type order[K comparable, V any] []*entry[K, V]

func (o order[K, V]) Len() int           { return len(o) }
func (o order[K, V]) Less(i, j int) bool { return o[i].at.Before(o[j].at) }
func (o order[K, V]) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].place, o[j].place = i, j
}

func (o *order[K, V]) Push(x any) {
	e := x.(*entry[K, V])
	e.place = len(*o)
	*o = append(*o, e)
}

func (o *order[K, V]) Pop() any {
	last := len(*o) - 1
	e := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	return e
}
