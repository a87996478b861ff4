package client

import (
	"sync"
	"sync/atomic"
	"time"
)

// renewWait bounds the wait for all who keep leases of volumes. Heartbeats continue, and leases are ended, without
// those that do not respond.
const renewWait = time.Second

// forEachEntry calls do for all allocations concurrently and waits at most renewWait.
func forEachEntry(all []*entry, do func(*entry)) {
	done := make(chan struct{})
	var each sync.WaitGroup
	for _, e := range all {
		each.Go(func() { do(e) })
	}
	go func() {
		each.Wait()
		close(done)
	}()
	timer := time.NewTimer(renewWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// renewal is how far the leases of an allocation's tasks are renewed.
type renewal struct {
	mu           sync.Mutex
	wanted, done int64
	// busy is set while they are renewed, asked while their drivers are asked whether they are kept.
	busy  bool
	asked atomic.Bool
}

// renew renews the leases of the tasks. While that takes long, what is asked for meanwhile follows.
func (e *entry) renew(from int64) {
	r := &e.renewal
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wanted = max(r.wanted, from); r.busy || e.group == nil {
		return
	}
	r.busy = true
	for r.done < r.wanted {
		next := r.wanted
		r.mu.Unlock()
		e.group.Renew(next)
		r.mu.Lock()
		r.done = next
	}
	r.busy = false
}

// leasesKept returns the allocations of which each task that uses volumes has a process that ends it with the lease. An
// allocation whose drivers do not respond in time is left out.
func leasesKept(all []*entry) map[string]bool {
	var mu sync.Mutex
	kept := map[string]bool{}
	forEachEntry(all, func(e *entry) {
		if e.group == nil || !e.renewal.asked.CompareAndSwap(false, true) {
			return
		}
		yes := e.group.LeaseKept()
		e.renewal.asked.Store(false)
		if !yes {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if kept != nil {
			kept[e.alloc.ID()] = true
		}
	})
	mu.Lock()
	defer mu.Unlock()
	out := kept
	kept = nil // later results are ignored
	return out
}
