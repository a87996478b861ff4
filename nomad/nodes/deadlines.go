package nodes

import (
	"container/heap"
	"sync"
	"time"
)

// deadlines know when each node is lost, the nearest first.
type deadlines struct {
	mu   sync.Mutex
	by   map[string]*deadline
	heap deadlineHeap
	// losing are the nodes that are just being marked as lost.
	losing map[string]bool
	wake   chan struct{}
}

func newDeadlines() *deadlines {
	return &deadlines{by: map[string]*deadline{}, losing: map[string]bool{}, wake: make(chan struct{}, 1)}
}

func (d *deadlines) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.by)
}

// set starts or moves the deadline of a node that was heard now. It reports false, and does nothing, while the node is
// being marked as lost: since when it is silent is on its way to the log.
func (d *deadlines) set(id string, now, at time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.losing[id] {
		return false
	}
	e := d.by[id]
	if e == nil {
		e = &deadline{id: id, at: at, seen: now}
		d.by[id] = e
		heap.Push(&d.heap, e)
	} else {
		e.at, e.seen = at, now
		heap.Fix(&d.heap, e.place)
	}
	d.wakeFirst(e)
	return true
}

// wakeFirst wakes who waits when the deadline is the nearest; the caller holds the lock.
func (d *deadlines) wakeFirst(e *deadline) {
	if e.place == 0 {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
}

// lose begins to mark a node as lost, unless it was heard since it was due: then it has a deadline again. lost must be
// called after it.
func (d *deadlines) lose(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.losing[id] = d.by[id] == nil
	return d.losing[id]
}

// lost ends what lose began.
func (d *deadlines) lost(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.losing, id)
}

func (d *deadlines) drop(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.by[id]; e != nil {
		heap.Remove(&d.heap, e.place)
		delete(d.by, id)
	}
}

// retry puts a node back that could not be marked, or is to be looked at again.
func (d *deadlines) retry(e *deadline, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by[e.id] == nil { // it was not heard meanwhile
		e.at = at
		d.by[e.id] = e
		heap.Push(&d.heap, e)
		d.wakeFirst(e)
	}
}

// expired takes out the nodes that are due and tells when the next one is.
func (d *deadlines) expired(now time.Time) (due []*deadline, next time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.heap) > 0 && !d.heap[0].at.After(now) {
		e := heap.Pop(&d.heap).(*deadline)
		delete(d.by, e.id)
		due = append(due, e)
	}
	if len(d.heap) > 0 {
		next = d.heap[0].at
	}
	return due, next
}

type deadline struct {
	id string
	at time.Time
	// seen is when this leader heard of the node last; its first word to a new leader is the leader's own start.
	seen  time.Time
	place int
}

type deadlineHeap []*deadline

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *deadlineHeap) Push(x any) {
	e := x.(*deadline)
	e.place = len(*h)
	*h = append(*h, e)
}

func (h *deadlineHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}
