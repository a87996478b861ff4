package client_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// servers are the servers of a cluster in memory, as one node sees them.
type servers struct {
	mu       sync.Mutex
	handlers map[string]wire.Handler
	nodes    map[string]*api.Node
	allocs   map[string]*api.Allocation
	index    uint64
	changed  chan struct{}
	// reports counts the calls that brought reports, deaf makes all calls fail.
	reports, registers int
	// rollback is the mark that registrations need, marks are those of all that were taken.
	rollback int64
	marks    []int64
	// took lists the nodes as they were registered.
	took []*api.Node
	// process registered last; one by the name former is told that it comes late.
	process, former string
	deaf            bool
	// replaces is set when an allocation that ended and should run is placed again.
	replaces bool
	// events are what nodes have told of themselves.
	events []*api.NodeEvent
	// tell is what nodes are told, remembered what a node told its link.
	tell, remembered []string
	// data replies to requests for the data of other nodes; it is set while the node does not run.
	data func(context.Context, *api.DiskDataRequest) (*api.DiskDataResponse, error)
}

func newServers() *servers {
	return &servers{handlers: map[string]wire.Handler{}, nodes: map[string]*api.Node{}, allocs: map[string]*api.Allocation{}, changed: make(chan struct{})}
}

func (s *servers) Handle(handlers ...wire.Handler) {
	for _, h := range handlers {
		s.handlers[h.Name] = h
	}
}
func (s *servers) SetNode(string, string) {}
func (s *servers) SetServers([]string)    {}
func (s *servers) SetPace(time.Duration)  {}
func (s *servers) Remember(all []string)  { s.remembered = all }
func (s *servers) Each(ctx context.Context, _ []string, fn func(context.Context, wire.Caller)) {
	fn(ctx, s)
}

// call calls the node, as a server would.
func call[Req, Resp any](t *testing.T, s *servers, m wire.Method[Req, Resp], req *Req) (*Resp, error) {
	t.Helper()
	h, ok := s.handlers[m.Name]
	if !ok {
		t.Fatalf("node does not serve %s", m.Name)
	}
	out, err := h.Serve(t.Context(), req)
	if err != nil {
		return nil, err
	}
	return out.(*Resp), nil
}

// edit changes the state and wakes whoever waits.
func (s *servers) edit(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
	s.index++
	close(s.changed)
	s.changed = make(chan struct{})
}

// until waits for a fact.
func (s *servers) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		s.mu.Lock()
		good, changed := ok(), s.changed
		s.mu.Unlock()
		if good {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

// eventually asks for a fact that nobody announces.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit, tick := time.After(30*time.Second), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

// place gives an allocation to the node, or a new version of one.
func (s *servers) place(a api.Allocation) {
	s.edit(func() {
		if old := s.allocs[a.ID]; old != nil {
			a.ClientStatus, a.TaskStates = old.ClientStatus, old.TaskStates
		}
		a.AllocModifyIndex = s.index + 1
		s.allocs[a.ID] = &a
	})
}

func (s *servers) status(id string) string {
	if a := s.allocs[id]; a != nil {
		return a.ClientStatus
	}
	return ""
}

// Invoke serves what nodes call.
func (s *servers) Invoke(ctx context.Context, method string, req, resp any) error {
	s.mu.Lock()
	deaf := s.deaf
	s.mu.Unlock()
	if deaf {
		return fault.New(fault.Unavailable, "no server answers")
	}
	switch r := req.(type) {
	case *api.NodeRegisterRequest:
		s.mu.Lock()
		mark, late := s.rollback, r.Process != "" && r.Process == s.former
		s.mu.Unlock()
		if late {
			resp.(*api.NodeUpdateResponse).Late = true
			return nil
		}
		if mark != 0 && r.Rollback != mark && r.Rollback != 0 {
			resp.(*api.NodeUpdateResponse).Rollback = mark
			return nil
		}
		out := resp.(*api.NodeUpdateResponse)
		out.HeartbeatTTL = 200 * time.Millisecond
		s.edit(func() {
			s.nodes[r.Node.ID] = r.Node
			s.took = append(s.took, r.Node)
			s.registers++
			s.marks = append(s.marks, r.Rollback)
			s.process = r.Process
			out.Servers = s.tell
		})
		return nil
	case *api.NodeHeartbeatRequest:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.nodes[r.NodeID] == nil {
			return fault.New(fault.NotFound, "node %s", r.NodeID)
		}
		if len(r.Events) > 0 {
			s.events = append(s.events, r.Events...)
			close(s.changed)
			s.changed = make(chan struct{})
		}
		resp.(*api.NodeUpdateResponse).HeartbeatTTL = 200 * time.Millisecond
		resp.(*api.NodeUpdateResponse).Servers = s.tell
		return nil
	case *api.DiskDataRequest:
		if s.data == nil {
			return fault.New(fault.Denied, "no data is expected")
		}
		out, err := s.data(ctx, r)
		if err == nil {
			*resp.(*api.DiskDataResponse) = *out
		}
		return err
	case *api.NodeAssignmentsRequest:
		return s.assignments(ctx, r, resp.(*api.NodeAssignmentsResponse))
	case *api.AllocUpdateRequest:
		s.edit(func() {
			s.reports++
			for _, u := range r.Allocs {
				if a := s.allocs[u.ID]; a != nil {
					next := *a
					next.ClientStatus, next.ClientDescription, next.TaskStates = u.ClientStatus, u.ClientDescription, u.TaskStates
					s.allocs[u.ID] = &next
					if s.replaces && next.ClientTerminal() && next.DesiredStatus == api.AllocDesiredStatusRun {
						again := next
						again.ID, again.ClientStatus, again.TaskStates, again.AllocModifyIndex = u.ID+"-again", "", nil, s.index+1
						s.allocs[again.ID] = &again
					}
				}
			}
		})
		return nil
	}
	return errors.New("no such method: " + method)
}

func (s *servers) assignments(ctx context.Context, r *api.NodeAssignmentsRequest, out *api.NodeAssignmentsResponse) error {
	for {
		s.mu.Lock()
		out.Assigned, out.Changed, out.Index = nil, nil, s.index
		known := maps.Clone(r.Known)
		for id, a := range s.allocs {
			out.Assigned = append(out.Assigned, id)
			if r.Known[id] != a.AllocModifyIndex {
				out.Changed = append(out.Changed, a)
			}
			delete(known, id)
		}
		changed := s.changed
		s.mu.Unlock()
		if r.MinIndex == 0 || len(out.Changed) > 0 || len(known) > 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
