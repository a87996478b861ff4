package client

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/tasks"
	"github.com/open-nomad/open-nomad/internal/workgroup"
)

// entry is one allocation of the node with its tasks; group is nil when the allocation is broken.
type entry struct {
	alloc *allocs.Alloc
	group *tasks.Group
	// told is the status in the last report; sendReports alone uses it.
	told string
	// heard is set when the servers have taken the report of its end. Before that it must not be collected: they would
	// give it to the node again, which would not know that it has run.
	heard atomic.Bool
	// renewal is of the leases of its tasks.
	renewal renewal
}

// table is the set of allocations of the node.
type table struct {
	mu      sync.RWMutex
	entries map[string]*entry
	runs    workgroup.Group
}

func newTable() *table { return &table{entries: map[string]*entry{}} }

func (t *table) get(id string) *entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.entries[id]
}

// alloc returns an allocation, nil when it is unknown.
func (t *table) alloc(id string) *allocs.Alloc {
	if e := t.get(id); e != nil {
		return e.alloc
	}
	return nil
}

func (t *table) all() []*entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]*entry, 0, len(t.entries))
	for _, e := range t.entries {
		out = append(out, e)
	}
	return out
}

func (t *table) len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.entries)
}

// add puts the entry in and runs its allocation until it is down or ctx ends.
func (t *table) add(ctx context.Context, e *entry, after func()) {
	t.mu.Lock()
	t.entries[e.alloc.ID()] = e
	t.mu.Unlock()
	t.runs.Go(e.alloc.ID(), func() {
		if e.alloc.Run(ctx) == nil {
			after()
		}
	})
}

func (t *table) remove(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.entries, id)
}

// wait waits, bounded, until no allocation is led any more, and names those that are.
func (t *table) wait() (left []string) { return t.runs.Wait() }

// waitsForOther reports whether an allocation whose tasks the given one follows has not ended.
func (t *table) waitsForOther(a *api.Allocation) bool {
	over := t.ended(a.PreviousAllocation)
	if over == nil {
		return false
	}
	select {
	case <-over:
		return false
	default:
		return true
	}
}

// ended returns a channel that is closed when the tasks of the allocation have ended, nil when it is unknown.
func (t *table) ended(id string) <-chan struct{} {
	if e := t.get(id); e != nil {
		return e.alloc.Ended()
	}
	return nil
}
