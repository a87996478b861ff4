package plan

import (
	"context"
	"sync"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// FleetCache keeps a fleet up to date with the nodes and allocations of the state.
type FleetCache struct {
	store *state.Store

	mu    sync.Mutex
	fleet *fleet.Fleet
	line  uint64        // of the state that fleet is of
	moved chan struct{} // closed when fleet was replaced
}

// NewFleetCache makes a cache, which is empty until Run works.
func NewFleetCache(s *state.Store) *FleetCache {
	return &FleetCache{store: s, fleet: fleet.New(), moved: make(chan struct{})}
}

// Run follows the state until ctx ends.
func (r *FleetCache) Run(ctx context.Context) error {
	f := r.store.Feed(state.TableNodes, state.TableAllocs)
	defer f.Close()
	for {
		b, err := f.Next(ctx)
		if err != nil {
			return err
		}
		r.advance(b)
	}
}

func (r *FleetCache) advance(b state.Batch) {
	r.mu.Lock()
	current, line := r.fleet, r.line
	r.mu.Unlock()
	next := current
	if b.Resync {
		tx := r.store.Read()
		line = tx.Line()
		next = fleet.Build(tx.Index(), tx.Nodes(), tx.Allocs(api.AllNamespaces))
	} else {
		e := current.Edit()
		for _, c := range b.Changes {
			follow(e, c, current.Index())
		}
		next = e.Done(max(b.Index, current.Index()))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fleet, r.line = next, line
	close(r.moved)
	r.moved = make(chan struct{})
}

// follow carries a change over. What is not newer than known may be there already.
func follow(e *fleet.Edit, c state.Change, known uint64) {
	switch after := c.After.(type) {
	case *api.Node:
		e.PutNode(after)
		return
	case *api.Allocation:
		before, _ := c.Before.(*api.Allocation)
		switch {
		case before == nil && after.CreateIndex > known:
			e.NewAlloc(after)
		case before == nil || !sameLoad(before, after):
			e.PutAlloc(after)
		}
		return
	}
	switch before := c.Before.(type) {
	case *api.Node:
		e.DeleteNode(before.ID)
	case *api.Allocation:
		e.DeleteAlloc(before)
	}
}

// sameLoad reports whether a change is none for the fleet, as most reports of nodes are.
func sameLoad(before, after *api.Allocation) bool {
	return before.AllocatedResources == after.AllocatedResources && before.NodeID == after.NodeID &&
		before.ClientTerminal() == after.ClientTerminal() && priorityOf(before) == priorityOf(after)
}

func priorityOf(a *api.Allocation) int {
	if a.Job == nil {
		return 0
	}
	return a.Job.Priority
}

// Fleet is the fleet with everything that was committed before the call. After a restore that is the fleet of the
// restored state, whose indexes may be lower.
func (r *FleetCache) Fleet(ctx context.Context) (*fleet.Fleet, error) {
	tx := r.store.Read()
	want := tx.TableIndex(state.TableNodes, state.TableAllocs)
	for {
		r.mu.Lock()
		f, line, moved := r.fleet, r.line, r.moved
		r.mu.Unlock()
		if line == tx.Line() && f.Index() >= want {
			return f, nil
		}
		if now := r.store.Read(); now.Line() != tx.Line() {
			tx, want = now, now.TableIndex(state.TableNodes, state.TableAllocs)
			continue
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
