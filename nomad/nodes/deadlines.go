package nodes

import (
	"sync"
	"time"

	heap "github.com/open-nomad/open-nomad/internal/deadlines"
)

// deadlines holds the time at which each node is lost, the nearest first.
type deadlines struct {
	mu sync.Mutex
	// nodes maps ids to the node's last contact with this leader: for a new leader, the start of its term.
	nodes heap.Heap[string, time.Time]
	// losing are the nodes that are just being marked as lost.
	losing map[string]bool
	wake   chan struct{}
}

func newDeadlines() *deadlines {
	return &deadlines{losing: map[string]bool{}, wake: make(chan struct{}, 1)}
}

func (d *deadlines) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes.Len()
}

// set starts or moves the deadline of a node that was heard now. It reports false, and does nothing, while the node is
// being marked as lost: since when it is silent is on its way to the log.
func (d *deadlines) set(id string, now, at time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.losing[id] {
		return false
	}
	d.put(id, now, at)
	return true
}

// put sets a deadline and wakes the waiter when it is the nearest; the caller holds the lock.
func (d *deadlines) put(id string, seen, at time.Time) {
	if !d.nodes.Set(id, at, seen) {
		return
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// lose begins to mark a node as lost, unless it was heard since it was due: then it has a deadline again. lost must be
// called after it.
func (d *deadlines) lose(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, heard := d.nodes.Get(id)
	d.losing[id] = !heard
	return !heard
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
	d.nodes.Drop(id)
}

// retry puts a node back that could not be marked, or is to be checked again.
func (d *deadlines) retry(e deadline, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, heard := d.nodes.Get(e.id); !heard {
		d.put(e.id, e.seen, at)
	}
}

// deadline is one that has passed.
type deadline struct {
	id   string
	seen time.Time
}

// expired removes the nodes that are due and returns when the next one is; zero means never.
func (d *deadlines) expired(now time.Time) (due []deadline, next time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, seen, some := d.nodes.Take(now); some; id, seen, some = d.nodes.Take(now) {
		due = append(due, deadline{id, seen})
	}
	next, _ = d.nodes.Next()
	return due, next
}
