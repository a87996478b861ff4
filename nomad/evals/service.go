package evals

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/allocs/row"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config is what the room needs.
type Config struct {
	State *state.Store
	Raft  fsm.Proposer
	Log   hclog.Logger
	// Workers is how many evaluations are processed at once; default 2.
	Workers int
	Broker  broker.Config
}

// Service answers reads of evaluations and, on the leader, processes them.
type Service struct {
	Config
}

// New makes the room.
func New(c Config) *Service {
	if c.Workers <= 0 {
		c.Workers = 2
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.Broker.NewToken == nil {
		c.Broker.NewToken = newID
	}
	return &Service{c}
}

// Handlers binds the room's methods.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.EvalList.Handle(s.List), wire.EvalGet.Handle(s.Get), wire.EvalAllocations.Handle(s.Allocations),
	}
}

func namespaceOf(q *api.QueryOptions) string { return cmp.Or(q.Namespace, api.DefaultNamespace) }

// List lists evaluations.
func (s *Service) List(ctx context.Context, r *api.EvalListRequest) (*api.EvalListResponse, error) {
	resp := &api.EvalListResponse{}
	ns := namespaceOf(&r.QueryOptions)
	keys := []state.Key{state.TableKey(state.TableEvals)}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &resp.QueryMeta, keys, func(tx *state.Txn) error {
		list := tx.EvalsPrefix(ns, r.Prefix)
		if r.JobID != "" && ns != api.AllNamespaces {
			list = tx.EvalsByJob(ns, r.JobID)
		}
		resp.Evaluations = nil
		for e := range list {
			if (r.JobID == "" || e.JobID == r.JobID) && (r.Status == "" || e.Status == r.Status) && strings.HasPrefix(e.ID, r.Prefix) {
				resp.Evaluations = append(resp.Evaluations, e)
			}
		}
		page(resp, &r.QueryOptions)
		return nil
	})
	return resp, err
}

// page cuts the list to one page; the token is the id of the first row of the next one.
func page(resp *api.EvalListResponse, q *api.QueryOptions) {
	slices.SortFunc(resp.Evaluations, func(a, b *api.Evaluation) int {
		if d := cmp.Compare(a.CreateIndex, b.CreateIndex); d != 0 {
			return d
		}
		return cmp.Compare(a.ID, b.ID)
	})
	if q.Reverse {
		slices.Reverse(resp.Evaluations)
	}
	if q.NextToken != "" {
		at := slices.IndexFunc(resp.Evaluations, func(e *api.Evaluation) bool { return e.ID == q.NextToken })
		resp.Evaluations = resp.Evaluations[max(at, 0):]
	}
	resp.NextToken = ""
	if n := int(q.PerPage); n > 0 && len(resp.Evaluations) > n {
		resp.NextToken = resp.Evaluations[n].ID
		resp.Evaluations = resp.Evaluations[:n]
	}
}

// Get reads one evaluation.
func (s *Service) Get(ctx context.Context, r *api.EvalRequest) (*api.EvalGetResponse, error) {
	if r.EvalID == "" {
		return nil, fault.New(fault.Invalid, "missing evaluation id")
	}
	resp := &api.EvalGetResponse{}
	keys := []state.Key{state.EvalKey(r.EvalID)}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &resp.QueryMeta, keys, func(tx *state.Txn) error {
		resp.Eval = tx.Eval(r.EvalID)
		if resp.Eval != nil && r.Related {
			with := *resp.Eval
			with.RelatedEvals = related(tx, resp.Eval)
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
	keys := []state.Key{state.EvalAllocsKey(r.EvalID)}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &resp.QueryMeta, keys, func(tx *state.Txn) error {
		resp.Allocs = nil
		for a := range tx.AllocsByEval(r.EvalID) {
			resp.Allocs = append(resp.Allocs, row.Of(a))
		}
		return nil
	})
	return resp, err
}
