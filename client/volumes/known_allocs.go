package volumes

import (
	"maps"
	"sync"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api"
)

// knownAllocs are the allocations whose tasks may use their volumes, from their start on the node, or the restart of the
// agent, until [Service.Down]. Until [Service.Restored] they are those of the journal.
type knownAllocs struct {
	mu     sync.Mutex
	allocs map[string]knownAlloc
}

// knownAlloc is an allocation. alloc is nil if only the journal has it, over is set after its tasks have ended.
type knownAlloc struct {
	alloc *api.Allocation
	over  bool
}

func newKnownAllocs(j *journal.Journal) *knownAllocs {
	l := &knownAllocs{allocs: map[string]knownAlloc{}}
	for _, r := range j.Rows() {
		if r.State != journal.Leaving && r.State != journal.Released {
			l.allocs[r.AllocID] = knownAlloc{}
		}
	}
	return l
}

// restored takes over which allocations the node knows.
func (l *knownAllocs) restored(all map[string]Known) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.allocs)
	for id, k := range all {
		l.allocs[id] = knownAlloc{alloc: k.Alloc, over: k.Ended}
	}
}

func (l *knownAllocs) add(a *api.Allocation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allocs[a.ID] = knownAlloc{alloc: a}
}

// list adds an allocation that the servers list here and that the node has not started.
func (l *knownAllocs) list(a *api.Allocation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, is := l.allocs[a.ID]; !is {
		l.allocs[a.ID] = knownAlloc{alloc: a, over: true}
	}
}

// end records that the tasks of the allocation have ended.
func (l *knownAllocs) end(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, ok := l.allocs[id]
	if ok {
		k.over = true
		l.allocs[id] = k
	}
}

// forget ends what is known of an allocation.
func (l *knownAllocs) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.allocs, id)
}

// leave forgets an allocation whose tasks have ended and whose last record was removed.
func (l *knownAllocs) leave(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allocs[id].over {
		delete(l.allocs, id)
	}
}

// get returns the allocation, nil when it is not known, and reports whether it is live.
func (l *knownAllocs) get(id string) (*api.Allocation, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, ok := l.allocs[id]
	return k.alloc, ok && !k.over
}

// targets returns the uses of the allocations by the names of their target paths.
func (l *knownAllocs) targets() map[string]target {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]target{}
	for _, k := range l.allocs {
		if k.alloc != nil {
			maps.Copy(out, targetsOf(k.alloc))
		}
	}
	return out
}

// target identifies the use that a target path belongs to.
type target struct{ allocID, namespace, volumeID, use string }

// targetsOf returns the uses of an allocation by the names of their target paths.
func targetsOf(a *api.Allocation) map[string]target {
	out := map[string]target{}
	for _, u := range a.VolumeUses() {
		out[targetName(a.Namespace, u.VolumeID, a.ID, u.Name)] = target{a.ID, a.Namespace, u.VolumeID, u.Name}
	}
	return out
}
