package allocs

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config is what the service needs.
type Config struct {
	Log   hclog.Logger
	State *state.Store
	Raft  fsm.Proposer
	// Nodes reaches nodes; nil reaches none.
	Nodes rpc.NodeCaller
}

// Service serves the RPC methods of this package.
type Service struct {
	state   *state.Store
	raft    fsm.Proposer
	reports *batcher
	nodes   rpc.NodeCaller
	// pages is full while as many pages of data are in memory as may be.
	pages chan struct{}
}

// New makes the service.
func New(c Config) *Service {
	return &Service{state: c.State, raft: c.Raft, reports: newBatcher(c.Raft), nodes: c.Nodes, pages: make(chan struct{}, pagesMax)}
}

// Handlers binds the RPC methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.AllocList.Handle(s.List),
		wire.AllocGet.Handle(s.Get),
		wire.AllocStop.Handle(s.Stop),
		wire.AllocDiskData.Handle(s.DiskData),
		wire.NodeUpdateAllocs.Handle(s.Update),
	}
}

// List lists allocations by creation.
func (s *Service) List(ctx context.Context, r *api.AllocListRequest) (*api.AllocRowsResponse, error) {
	out := &api.AllocRowsResponse{}
	var err error
	out.Allocs, err = page.Read(ctx, s.state, &r.QueryOptions, &out.QueryMeta, []state.Key{state.TableKey(state.TableAllocs)},
		func(tx *state.Txn) page.List[*api.Allocation, *api.Allocation] {
			return page.Stored(tx.AllocSpan, func(a *api.Allocation) string { return state.AgeToken(a.CreateIndex, a.ID) })
		})
	return out, err
}

// Get reads one allocation.
func (s *Service) Get(ctx context.Context, r *api.AllocRequest) (*api.AllocGetResponse, error) {
	out := &api.AllocGetResponse{}
	id := r.AllocID
	if a := s.state.Read().Alloc(id); a != nil {
		id = access.Shown(ctx, id, a.Namespace)
	}
	err := rpc.Block(ctx, s.state, &r.QueryOptions, &out.QueryMeta, []state.Key{state.AllocKey(id)}, func(tx *state.Txn) error {
		out.Alloc = nil
		a := tx.Alloc(id)
		switch {
		case a == nil || !access.Sees(ctx, a.Namespace):
		case access.Of(ctx).Rights.Allows(readJob, a.Namespace):
			out.Alloc = a
		case r.Locate:
			out.Alloc = located(a)
		default:
			return access.ErrDenied
		}
		return nil
	})
	return out, err
}

var readJob = api.Right{On: api.OnNamespace, Any: []string{"read-job"}}

// Stop asks to stop an allocation and to place a replacement.
func (s *Service) Stop(ctx context.Context, r *api.AllocStopRequest) (*api.AllocStopResponse, error) {
	if r.AllocID == "" {
		return nil, fault.New(fault.Invalid, "must provide an alloc id")
	}
	if a := s.state.Read().Alloc(r.AllocID); a != nil {
		if err := access.Refusal(ctx, a.Namespace, fmt.Errorf("stop alloc: %w", missing(a.ID))); err != nil {
			return nil, err
		}
	}
	c := &Transition{
		AllocID: r.AllocID, EvalID: uuid.NewString(),
		Transition: api.DesiredTransition{Migrate: true, Reschedule: r.Reschedule, NoShutdownDelay: r.NoShutdownDelay},
	}
	res, err := s.raft.Propose(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("stop alloc: %w", err)
	}
	return &api.AllocStopResponse{EvalID: c.EvalID, WriteMeta: api.WriteMeta{Index: res.Index}}, nil
}

// Update takes over the client half of a node's allocations.
func (s *Service) Update(ctx context.Context, r *api.AllocUpdateRequest) (*api.WriteMeta, error) {
	if len(r.Allocs) == 0 {
		return nil, fault.New(fault.Invalid, "must update at least one allocation")
	}
	process, err := checkReporter(s.state.Read().Node(r.NodeID), r)
	if err != nil {
		return nil, err
	}
	reports := make([]*api.Allocation, 0, len(r.Allocs))
	for _, a := range r.Allocs {
		if err := check(a); err != nil {
			return nil, err
		}
		half := brief(clientHalf(a, r.NodeID))
		if process != "" {
			half.ReportProcess, half.ReportNumber = process, r.Number
		}
		if n := half.Msgsize(); n > reportMax {
			return nil, fault.New(fault.TooLarge, "the report on alloc %q has %d bytes, at most %d are possible", a.ID, n, reportMax)
		}
		reports = append(reports, half)
	}
	index, err := s.reports.send(ctx, reports)
	if err != nil {
		return nil, fmt.Errorf("update %d allocs of node %q: %w", len(reports), r.NodeID, err)
	}
	return &api.WriteMeta{Index: index}, nil
}

// checkReporter returns the process of the agent that reports, empty where it is not known, and refuses what was sent by another one
// than that has registered last, or by a node that is lost: it is not back before it has registered, or sent a heartbeat. A
// node sends a refused report again.
func checkReporter(n *api.Node, r *api.AllocUpdateRequest) (process string, err error) {
	switch {
	case n == nil:
		return "", nil
	case n.Status == api.NodeStatusDown || n.Status == api.NodeStatusDisconnected:
		return "", fault.New(fault.Conflict, "node %q is %s: it must send a heartbeat before it reports", n.ID, n.Status)
	case n.Process == "" || r.Process == "": // an agent that says nothing of its process
		return "", nil
	case r.Process != n.Process:
		return "", fault.New(fault.Conflict, "another process of node %q has registered since it sent this report", n.ID)
	}
	return n.Process, nil
}

func check(a *api.Allocation) error {
	if a == nil || a.ID == "" {
		return fault.New(fault.Invalid, "an update names no allocation")
	}
	switch a.ClientStatus {
	case api.AllocClientStatusPending, api.AllocClientStatusRunning, api.AllocClientStatusComplete,
		api.AllocClientStatusFailed, api.AllocClientStatusLost, api.AllocClientStatusUnknown:
		return nil
	}
	return fault.New(fault.Invalid, "alloc %q has the unknown client status %q", a.ID, a.ClientStatus)
}

// clientHalf returns the fields of a report that a node may set.
func clientHalf(a *api.Allocation, node string) *api.Allocation {
	return &api.Allocation{
		ID: a.ID, NodeID: node, ClientStatus: a.ClientStatus, ClientDescription: a.ClientDescription,
		TaskStates: a.TaskStates, DeploymentID: a.DeploymentID, DeploymentStatus: a.DeploymentStatus, NetworkStatus: a.NetworkStatus,
	}
}

// located returns a copy with what is needed to find an allocation and its tasks.
func located(a *api.Allocation) *api.Allocation {
	short := &api.Allocation{
		ID: a.ID, Name: a.Name, Namespace: a.Namespace, NodeID: a.NodeID, NodeName: a.NodeName, JobID: a.JobID, TaskGroup: a.TaskGroup,
		DesiredStatus: a.DesiredStatus, ClientStatus: a.ClientStatus, CreateIndex: a.CreateIndex, ModifyIndex: a.ModifyIndex,
	}
	if g := a.Group(); g != nil {
		named := &api.TaskGroup{Name: g.Name}
		for _, t := range g.Tasks {
			named.Tasks = append(named.Tasks, &api.Task{Name: t.Name})
		}
		short.Job = &api.Job{ID: a.JobID, Namespace: a.Namespace, TaskGroups: []*api.TaskGroup{named}}
	}
	return short
}
