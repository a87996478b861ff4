package evals

import (
	"cmp"
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/allocs/row"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config is what the service needs.
type Config struct {
	State *state.Store
	Raft  fsm.Proposer
	Log   hclog.Logger
	// Workers is how many evaluations this server processes at once; default 2, none when negative.
	Workers int
	// Kinds are the types of jobs whose evaluations this server processes; none means all.
	Kinds  []string
	Broker broker.Config
	// SweepEvery is how often the leader looks for blocked evaluations that were not woken; default a minute.
	SweepEvery time.Duration
	// Leader carries calls to the leader; with nil the workers work only while this server leads.
	Leader wire.Caller
	// Rejections configures what happens to nodes on which plans are rejected repeatedly, and Ineligible how
	// a node is taken out of scheduling.
	Rejections plan.Rejections
	Ineligible func(ctx context.Context, node string) error
	// Metrics records queues and workers; nil does not.
	Metrics *metrics.Recorder
}

// Service serves reads of evaluations, processes evaluations on every server, and on the leader hands
// them out.
type Service struct {
	Config
	fleets *plan.FleetCache
	// conflicts counts the plans that were refused in part.
	conflicts atomic.Uint64
	// missed counts the blocked evaluations that could run and had not been woken.
	missed atomic.Uint64
	pool   pool

	mu    sync.Mutex
	term  *leader
	moved chan struct{} // closed when term changes
}

// New makes the service.
func New(c Config) *Service {
	if c.Workers == 0 {
		c.Workers = 2
	}
	if len(c.Kinds) == 0 {
		c.Kinds = kinds
	}
	if c.SweepEvery == 0 {
		c.SweepEvery = sweepEvery
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	c.Broker.Metrics = c.Metrics
	if c.Broker.NewToken == nil {
		c.Broker.NewToken = newID
	}
	s := &Service{Config: c, fleets: plan.NewFleetCache(c.State), moved: make(chan struct{})}
	s.pool.number, s.pool.kinds, s.pool.changed = max(0, c.Workers), c.Kinds, make(chan struct{})
	return s
}

// Conflicts is how many plans of this server's workers were refused in part, because others had taken what
// they counted on.
func (s *Service) Conflicts() uint64 { return s.conflicts.Load() }

// Handlers binds the RPC methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.EvalList.Handle(s.List), wire.EvalGet.Handle(s.Get), wire.EvalAllocations.Handle(s.Allocations),
		wire.EvalCount.Handle(s.Count), wire.EvalDelete.Handle(s.Delete),
		wire.EvalDequeue.Handle(s.Dequeue), wire.EvalAck.Handle(s.Ack), wire.EvalUpdate.Handle(s.Update),
		wire.PlanSubmit.Handle(s.Submit),
	}
}

func namespaceOf(q *api.QueryOptions) string { return cmp.Or(q.Namespace, api.DefaultNamespace) }

// List lists evaluations by creation.
func (s *Service) List(ctx context.Context, r *api.EvalListRequest) (*api.EvalListResponse, error) {
	resp := &api.EvalListResponse{}
	var err error
	resp.Evaluations, err = page.Read(ctx, s.State, &r.QueryOptions, &resp.QueryMeta, evalKeys, func(tx *state.Txn) page.List[*api.Evaluation, *api.Evaluation] {
		return listOf(tx, r)
	})
	return resp, err
}

var evalKeys = []state.Key{state.TableKey(state.TableEvals)}

// Count counts the evaluations of a list.
func (s *Service) Count(ctx context.Context, r *api.EvalListRequest) (*api.EvalCountResponse, error) {
	resp := &api.EvalCountResponse{}
	whole := r.QueryOptions
	whole.PerPage, whole.NextToken = 0, ""
	found, err := page.Read(ctx, s.State, &whole, &resp.QueryMeta, evalKeys, func(tx *state.Txn) page.List[*api.Evaluation, *api.Evaluation] {
		return listOf(tx, r)
	})
	resp.Count = len(found)
	return resp, err
}

// listOf are the evaluations that a request names.
func listOf(tx *state.Txn, r *api.EvalListRequest) page.List[*api.Evaluation, *api.Evaluation] {
	token := func(e *api.Evaluation) string { return state.AgeToken(e.CreateIndex, e.ID) }
	l := page.Stored(tx.EvalSpan, token)
	if ns := namespaceOf(&r.QueryOptions); r.JobID != "" && ns != api.AllNamespaces {
		l.Walk = func(s state.Span) iter.Seq[*api.Evaluation] { return tx.JobEvalSpan(r.JobID, s) }
	}
	l.Keep = func(e *api.Evaluation) bool {
		return (r.JobID == "" || e.JobID == r.JobID) && (r.Status == "" || e.Status == r.Status)
	}
	return l
}

// shown is the id that a request names; none when the caller does not see the evaluation.
func (s *Service) shown(ctx context.Context, id string) string {
	if e := s.State.Read().Eval(id); e != nil {
		return access.Shown(ctx, id, e.Namespace)
	}
	return id
}

// Get reads one evaluation.
func (s *Service) Get(ctx context.Context, r *api.EvalRequest) (*api.EvalGetResponse, error) {
	if r.EvalID == "" {
		return nil, fault.New(fault.Invalid, "missing evaluation id")
	}
	resp := &api.EvalGetResponse{}
	id := s.shown(ctx, r.EvalID)
	keys := []state.Key{state.EvalKey(id)}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &resp.QueryMeta, keys, func(tx *state.Txn) error {
		resp.Eval = nil
		e := tx.Eval(id)
		if e == nil || !access.Sees(ctx, e.Namespace) {
			return nil
		}
		resp.Eval = e
		if r.Related {
			with := *e
			with.RelatedEvals = related(tx, e)
			resp.Eval = &with
		}
		return nil
	})
	return resp, err
}

// related follows the chain of an evaluation in all directions.
func related(tx *state.Txn, first *api.Evaluation) []*api.EvaluationStub {
	seen := map[string]bool{first.ID: true}
	todo := []*api.Evaluation{first}
	var stubs []*api.EvaluationStub
	for len(todo) > 0 {
		e := todo[0]
		todo = todo[1:]
		for _, id := range []string{e.NextEval, e.PreviousEval, e.BlockedEval} {
			if other := tx.Eval(id); id != "" && other != nil && !seen[id] {
				seen[id] = true
				todo = append(todo, other)
				stubs = append(stubs, stubOf(other))
			}
		}
	}
	return stubs
}

func stubOf(e *api.Evaluation) *api.EvaluationStub {
	return &api.EvaluationStub{
		ID: e.ID, Priority: e.Priority, Type: e.Type, TriggeredBy: e.TriggeredBy, Namespace: e.Namespace, JobID: e.JobID,
		NodeID: e.NodeID, DeploymentID: e.DeploymentID, Status: e.Status, StatusDescription: e.StatusDescription,
		WaitUntil: e.WaitUntil, NextEval: e.NextEval, PreviousEval: e.PreviousEval, BlockedEval: e.BlockedEval,
		CreateIndex: e.CreateIndex, ModifyIndex: e.ModifyIndex, CreateTime: e.CreateTime, ModifyTime: e.ModifyTime,
	}
}

// Allocations lists what an evaluation placed.
func (s *Service) Allocations(ctx context.Context, r *api.EvalRequest) (*api.AllocListResponse, error) {
	resp := &api.AllocListResponse{}
	id := s.shown(ctx, r.EvalID)
	keys := []state.Key{state.EvalAllocsKey(id)}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &resp.QueryMeta, keys, func(tx *state.Txn) error {
		resp.Allocs = nil
		for a := range tx.AllocsByEval(id) {
			if access.Sees(ctx, a.Namespace) {
				resp.Allocs = append(resp.Allocs, row.Of(a))
			}
		}
		return nil
	})
	return resp, err
}
