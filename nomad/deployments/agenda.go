package deployments

import (
	"container/heap"
	"time"
)

// agenda knows when each deployment that is under way must be looked at, the nearest first.
type agenda struct {
	by   map[string]*item
	heap itemHeap
}

// item is one deployment of the agenda.
type item struct {
	id string
	at time.Time
	// place is where the heap has it; -1 while there is no time to look at it.
	place int
	// healthy is how many allocations were healthy when its job was evaluated last.
	healthy int
	// stepped is when its last step was taken.
	stepped time.Time
}

func newAgenda() *agenda { return &agenda{by: map[string]*item{}} }

func (w *agenda) clear() { *w = *newAgenda() }

// item returns the entry of a deployment, which is made when there is none.
func (w *agenda) item(id string) *item {
	e := w.by[id]
	if e == nil {
		e = &item{id: id, place: -1}
		w.by[id] = e
	}
	return e
}

// set says when to look at a deployment; zero means not before it changes.
func (w *agenda) set(e *item, at time.Time) {
	e.at = at
	switch {
	case at.IsZero() && e.place >= 0:
		heap.Remove(&w.heap, e.place)
	case at.IsZero():
	case e.place >= 0:
		heap.Fix(&w.heap, e.place)
	default:
		heap.Push(&w.heap, e)
	}
}

func (w *agenda) drop(id string) {
	if e := w.by[id]; e != nil {
		w.set(e, time.Time{})
		delete(w.by, id)
	}
}

// next is when the first deployment is due; zero means never.
func (w *agenda) next() time.Time {
	if len(w.heap) == 0 {
		return time.Time{}
	}
	return w.heap[0].at
}

// due takes out what is to be looked at now.
func (w *agenda) due(now time.Time, most int) []*item {
	var out []*item
	for len(w.heap) > 0 && len(out) < most && !w.heap[0].at.After(now) {
		out = append(out, heap.Pop(&w.heap).(*item))
	}
	return out
}

type itemHeap []*item

func (h itemHeap) Len() int           { return len(h) }
func (h itemHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h itemHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *itemHeap) Push(x any) {
	e := x.(*item)
	e.place = len(*h)
	*h = append(*h, e)
}

func (h *itemHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h, e.place = old[:len(old)-1], -1
	return e
}
