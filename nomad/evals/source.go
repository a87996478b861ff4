package evals

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	// pollWait is how long a worker of another server asks for work before it asks again.
	pollWait = 30 * time.Second
	pollMax  = time.Minute
	// A worker of another server that gives no sign of life for lendTime loses its evaluation: its server may
	// be cut off. It gives one every keepEvery.
	lendTime  = 3 * time.Second
	keepEvery = time.Second
)

// The leader's own workers call it directly.

func (l *leader) take(ctx context.Context, kinds []string) (*task, error) {
	began := time.Now()
	e, token, err := l.broker.Dequeue(ctx, kinds...)
	l.Metrics.Since("nomad.eval.dequeue", began)
	if err != nil {
		return nil, err
	}
	return &task{eval: e, token: token, index: l.reached(e)}, nil
}

// reached is the index from which on the state shows what was decided about the job.
func (l *leader) reached(e *api.Evaluation) uint64 {
	return max(e.ModifyIndex, l.State.Touched(state.JobAllocsKey(e.Namespace, e.JobID), state.JobEvalsKey(e.Namespace, e.JobID)))
}

func (l *leader) done(_ context.Context, t *task) error {
	defer l.Metrics.Since("nomad.eval.ack", time.Now())
	return l.broker.Ack(t.eval.ID, t.token)
}

func (l *leader) giveBack(_ context.Context, t *task) error {
	defer l.Metrics.Since("nomad.eval.nack", time.Now())
	return l.broker.Nack(t.eval.ID, t.token)
}

func (l *leader) keep(_ context.Context, t *task) error { return l.broker.Keep(t.eval.ID, t.token) }

func (l *leader) update(ctx context.Context, t *task, evals []*api.Evaluation) error {
	if err := l.broker.Extend(t.eval.ID, t.token); err != nil {
		return err
	}
	return l.notNow(t, l.write(ctx, evals))
}

// notNow takes a delivery back when the log accepts no entries although the term continues, as during an attempted
// transfer of leadership.
func (l *leader) notNow(t *task, err error) error {
	if errors.Is(err, fault.NotLeader) {
		if gone := l.broker.Delay(t.eval.ID, t.token); gone != nil {
			l.Log.Debug("evaluation was not taken back", "eval", t.eval.ID, "error", gone)
		}
	}
	return err
}

// submit commits a plan of the worker that holds the evaluation. No other worker receives the evaluation meanwhile.
func (l *leader) submit(ctx context.Context, t *task, s plan.Submission) (*plan.Outcome, error) {
	defer l.Metrics.Since("nomad.plan.submit", time.Now())
	if err := l.broker.Hold(t.eval.ID, t.token); err != nil {
		return nil, err
	}
	out, err := l.plans.Submit(ctx, s)
	if again := l.broker.Extend(t.eval.ID, t.token); err == nil && again != nil {
		l.Log.Debug("plan was committed late", "eval", t.eval.ID, "error", again)
	}
	return out, l.notNow(t, err)
}

// write stores evaluations.
func (s *Service) write(ctx context.Context, evals []*api.Evaluation) error {
	if len(evals) == 0 {
		return nil
	}
	if _, err := s.Raft.Propose(ctx, &Update{Evals: evals}); err != nil {
		return fmt.Errorf("write evaluations: %w", err)
	}
	return nil
}

// remote is the source of a leader that is another server.
type remote struct{ to wire.Caller }

func (r remote) take(ctx context.Context, kinds []string) (*task, error) {
	out, err := wire.EvalDequeue.Call(ctx, r.to, &api.EvalDequeueRequest{Kinds: kinds, Wait: pollWait})
	if err != nil || out.Eval == nil {
		return nil, err
	}
	return &task{eval: out.Eval, token: out.Token, index: out.WaitIndex}, nil
}

func (r remote) tell(ctx context.Context, t *task, how api.EvalAckRequest) error {
	how.EvalID, how.Token = t.eval.ID, t.token
	_, err := wire.EvalAck.Call(ctx, r.to, &how)
	return err
}

func (r remote) done(ctx context.Context, t *task) error { return r.tell(ctx, t, api.EvalAckRequest{}) }

func (r remote) giveBack(ctx context.Context, t *task) error {
	return r.tell(ctx, t, api.EvalAckRequest{Nack: true})
}

func (r remote) keep(ctx context.Context, t *task) error {
	return r.tell(ctx, t, api.EvalAckRequest{Extend: true})
}

func (r remote) update(ctx context.Context, t *task, evals []*api.Evaluation) error {
	_, err := wire.EvalUpdate.Call(ctx, r.to, &api.EvalUpdateRequest{Token: t.token, Evals: evals})
	return err
}

func (r remote) submit(ctx context.Context, _ *task, s plan.Submission) (*plan.Outcome, error) {
	out, err := wire.PlanSubmit.Call(ctx, r.to, &api.PlanSubmitRequest{Plan: s.Plan, Evals: s.Evals})
	if err != nil {
		return nil, err
	}
	if out.Result == nil {
		return nil, fault.New(fault.Internal, "the leader answered a plan with nothing")
	}
	return &plan.Outcome{PlanResult: out.Result, Whole: out.Whole}, nil
}

// What remote sources ask of the leader.

func (s *Service) leading() (*leader, error) {
	if l, _ := s.leads(); l != nil {
		return l, nil
	}
	return nil, fault.New(fault.NotLeader, "evaluations are handed out by the leader")
}

// Dequeue hands an evaluation to a worker of another server.
func (s *Service) Dequeue(ctx context.Context, r *api.EvalDequeueRequest) (*api.EvalDequeueResponse, error) {
	l, err := s.leading()
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, min(max(0, r.Wait), pollMax))
	defer cancel()
	t, err := l.take(wait, r.Kinds)
	switch {
	case err != nil && wait.Err() != nil && ctx.Err() == nil:
		return &api.EvalDequeueResponse{}, nil
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		l.broker.Return(t.eval.ID, t.token)
		return nil, ctx.Err()
	}
	if err := l.broker.Lend(t.eval.ID, t.token, lendTime); err != nil {
		return nil, err
	}
	return &api.EvalDequeueResponse{Eval: t.eval, Token: t.token, WaitIndex: t.index}, nil
}

// Ack takes back an evaluation from a worker of another server.
func (s *Service) Ack(ctx context.Context, r *api.EvalAckRequest) (*api.Empty, error) {
	l, err := s.leading()
	if err != nil {
		return nil, err
	}
	t := &task{eval: &api.Evaluation{ID: r.EvalID}, token: r.Token}
	switch {
	case r.Extend:
		err = l.keep(ctx, t)
	case r.Nack:
		err = l.giveBack(ctx, t)
	default:
		err = l.done(ctx, t)
	}
	if err != nil {
		return nil, err
	}
	return &api.Empty{}, nil
}

// Update writes what a worker of another server made of its evaluation, which must be among them.
func (s *Service) Update(ctx context.Context, r *api.EvalUpdateRequest) (*api.WriteMeta, error) {
	l, err := s.leading()
	if err != nil {
		return nil, err
	}
	err = fault.New(fault.Conflict, "none of %d evaluations is out with this token", len(r.Evals))
	for _, e := range r.Evals {
		if e != nil && l.broker.Extend(e.ID, r.Token) == nil {
			err = l.notNow(&task{eval: e, token: r.Token}, l.write(ctx, r.Evals))
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return &api.WriteMeta{Index: l.State.Read().Index()}, nil
}

// Submit commits the plan of a worker of another server. The response lists only the ids of nodes: those with a
// placement or an update to the job's version, and all with a stopped allocation.
func (s *Service) Submit(ctx context.Context, r *api.PlanSubmitRequest) (*api.PlanSubmitResponse, error) {
	l, err := s.leading()
	if err != nil {
		return nil, err
	}
	if r.Plan == nil {
		return nil, fault.New(fault.Invalid, "missing plan")
	}
	t := &task{eval: &api.Evaluation{ID: r.Plan.EvalID}, token: r.Plan.EvalToken}
	out, err := l.submit(ctx, t, plan.Submission{Plan: r.Plan, Evals: r.Evals})
	if err != nil {
		return nil, err
	}
	short := *out.PlanResult
	short.NodeAllocation, short.NodeUpdate, short.NodePreemptions = nodesOf(short.NodeAllocation, bringsOn), nodesOf(short.NodeUpdate, nil), nil
	return &api.PlanSubmitResponse{Result: &short, Whole: out.Whole}, nil
}

// nodesOf returns the nodes that have an allocation for which counts returns true. With a nil counts it returns all.
func nodesOf(m map[string][]*api.Allocation, counts func(*api.Allocation) bool) map[string][]*api.Allocation {
	out := make(map[string][]*api.Allocation, len(m))
	for node, list := range m {
		if counts == nil || slices.ContainsFunc(list, counts) {
			out[node] = nil
		}
	}
	return out
}
