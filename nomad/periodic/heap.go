package periodic

import (
	"container/heap"
	"time"
)

// name is one job.
type name struct{ namespace, id string }

// entry is a job's next launch: due is the time that its crons name, wake when to look, which is later
// when a launch is tried again.
type entry struct {
	name
	due, wake time.Time
	place     int
}

// agenda is what comes next, the nearest first.
type agenda struct {
	by   map[name]*entry
	heap entries
}

func newAgenda() *agenda { return &agenda{by: map[name]*entry{}} }

// set makes due the next launch of the job; zero takes the job off.
func (a *agenda) set(n name, due, wake time.Time) {
	e := a.by[n]
	switch {
	case due.IsZero() && e != nil:
		heap.Remove(&a.heap, e.place)
		delete(a.by, n)
	case due.IsZero():
	case e == nil:
		e = &entry{name: n, due: due, wake: wake}
		a.by[n] = e
		heap.Push(&a.heap, e)
	default:
		e.due, e.wake = due, wake
		heap.Fix(&a.heap, e.place)
	}
}

// next is when to look again.
func (a *agenda) next() (time.Time, bool) {
	if len(a.heap) == 0 {
		return time.Time{}, false
	}
	return a.heap[0].wake, true
}

// take takes off what is to be looked at by now.
func (a *agenda) take(now time.Time) []*entry {
	var out []*entry
	for len(a.heap) > 0 && !a.heap[0].wake.After(now) {
		e, _ := heap.Pop(&a.heap).(*entry)
		delete(a.by, e.name)
		out = append(out, e)
	}
	return out
}

type entries []*entry

func (h entries) Len() int           { return len(h) }
func (h entries) Less(i, j int) bool { return h[i].wake.Before(h[j].wake) }
func (h entries) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements [heap.Interface].
func (h *entries) Push(x any) {
	e, _ := x.(*entry)
	e.place = len(*h)
	*h = append(*h, e)
}

// Pop implements [heap.Interface].
func (h *entries) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}
