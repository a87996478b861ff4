package volumes

import (
	"sync"

	"github.com/open-nomad/open-nomad/api"
)

// live knows the allocations whose tasks may use their volumes: from when the node takes them up, again after a
// restart of the agent, until [Service.Down]. What the journal holds counts until the node has said which
// allocations it knows.
type live struct {
	mu     sync.Mutex
	allocs map[string]known
}

// known is an allocation; alloc is nil when only the journal knows it, over is set when its tasks have ended.
type known struct {
	alloc *api.Allocation
	over  bool
}

func newLive(j *journal) *live {
	l := &live{allocs: map[string]known{}}
	for _, r := range j.rows() {
		if r.State != rowLeaving && r.State != rowReleased {
			l.allocs[r.AllocID] = known{}
		}
	}
	for _, key := range j.damagedRows() {
		l.allocs[allocOf(key)] = known{}
	}
	return l
}

// restored takes over which allocations the node knows.
func (l *live) restored(all map[string]Known) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.allocs)
	for id, k := range all {
		l.allocs[id] = known{alloc: k.Alloc, over: k.Ended}
	}
}

func (l *live) add(a *api.Allocation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allocs[a.ID] = known{alloc: a}
}

// end notes that the tasks have ended and returns the allocation, nil when it is not known.
func (l *live) end(id string) *api.Allocation {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, ok := l.allocs[id]
	if ok {
		k.over = true
		l.allocs[id] = k
	}
	return k.alloc
}

// forget ends what is known of an allocation.
func (l *live) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.allocs, id)
}

// leave ends what is known of an allocation whose tasks have ended: its last record is gone.
func (l *live) leave(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allocs[id].over {
		delete(l.allocs, id)
	}
}

// get returns the allocation, nil when it is not known, and reports whether it is live.
func (l *live) get(id string) (*api.Allocation, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, ok := l.allocs[id]
	return k.alloc, ok && !k.over
}

// targets are the names of what may be mounted for the allocations.
func (l *live) targets() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := map[string]bool{}
	for _, k := range l.allocs {
		if k.alloc == nil {
			continue
		}
		for name := range targetsOf(k.alloc) {
			names[name] = true
		}
	}
	return names
}
