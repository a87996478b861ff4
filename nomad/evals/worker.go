package evals

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/internal/tracing"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// kinds are all queues that workers can serve.
var kinds = []string{api.JobTypeSystem, api.JobTypeSysbatch, api.JobTypeService, api.JobTypeBatch}

const (
	// stateWait bounds how long a worker waits for its server to have what the leader has.
	stateWait = 5 * time.Second
	// partingTime bounds how long a worker that ends tries to give back its work.
	partingTime = time.Second
)

// attemptsOf is how often an evaluation is tried again without progress.
func attemptsOf(kind string) int {
	switch kind {
	case api.JobTypeBatch, api.JobTypeSysbatch:
		return 2
	}
	return 5
}

// task is an evaluation in a worker's hands.
type task struct {
	eval  *api.Evaluation
	token string
	// index is what the worker's state must have reached.
	index uint64
	// contended are the nodes where earlier attempts came too late.
	contended []string
	// apart is set when few attempts are left.
	apart bool
}

// source is where a worker gets work and where the results go: the leader, in this process or not.
type source interface {
	take(ctx context.Context, kinds []string) (*task, error)
	done(ctx context.Context, t *task) error
	giveBack(ctx context.Context, t *task) error
	// keep reports that the worker still processes the evaluation.
	keep(ctx context.Context, t *task) error
	update(ctx context.Context, t *task, evals []*api.Evaluation) error
	submit(ctx context.Context, t *task, s plan.Submission) (*plan.Outcome, error)
}

// serve processes one evaluation and reports the result to its source.
func (w *worker) serve(ctx context.Context, d source, t *task) {
	ctx, span := tracing.Evaluation(ctx, t.eval.ID, requested(t.eval.TriggeredBy), t.eval.PreviousEval)
	err := w.attended(ctx, d, t)
	span.Set("job", t.eval.JobID)
	span.End(err)
	if id := tracing.ID(ctx); id != "" {
		w.Log.Debug("evaluation is processed", "eval", t.eval.ID, "job", t.eval.JobID, "namespace", t.eval.Namespace, "trace_id", id)
	}
	if err == nil {
		began := time.Now()
		err := d.done(ctx, t)
		w.Metrics.Since("nomad.worker.send_ack", began)
		if err != nil {
			w.Log.Debug("evaluation was processed late", "eval", t.eval.ID, "error", err)
		}
		return
	}
	if errors.Is(err, fault.NotLeader) || errors.Is(err, fault.Conflict) {
		// Another leader hands it out, or this leader took it back or gave it to another worker.
		w.Log.Debug("evaluation is no longer this worker's", "eval", t.eval.ID, "error", err)
		return
	}
	if ctx.Err() == nil {
		w.Log.Warn("evaluation will be tried again", "eval", t.eval.ID, "job", t.eval.JobID, "namespace", t.eval.Namespace, "error", err)
	}
	parting, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTime)
	defer cancel()
	if err := d.giveBack(parting, t); err != nil {
		w.Log.Debug("evaluation was not given back", "eval", t.eval.ID, "error", err)
	}
}

// requested reports whether a request creates evaluations with the trigger.
func requested(trigger string) bool {
	return trigger == api.TriggerJobRegister || trigger == api.TriggerJobDeregister || trigger == api.TriggerScaling
}

// attended processes the evaluation and calls keep at intervals. It stops when the source reports that another worker
// has the evaluation.
func (w *worker) attended(ctx context.Context, d source, t *task) error {
	ctx, end := context.WithCancelCause(ctx)
	var signs sync.WaitGroup
	signs.Go(func() {
		for retry.Sleep(ctx, keepEvery) {
			bounded, cancel := context.WithTimeout(ctx, lendTime)
			err := d.keep(bounded, t)
			cancel()
			if errors.Is(err, fault.Conflict) {
				end(err)
				return
			}
		}
	})
	err := w.process(ctx, d, t)
	if lost := context.Cause(ctx); err != nil && lost != nil {
		err = lost
	}
	end(nil)
	signs.Wait()
	return err
}

// process runs the scheduler until its plan is committed as a whole or the attempts are used up.
func (w *worker) process(ctx context.Context, d source, t *task) error {
	e := t.eval
	if e.TriggeredBy == api.TriggerScheduled {
		return fail(ctx, d, t, fmt.Sprintf("unknown trigger %q", e.TriggeredBy))
	}
	var last *scheduler.Output
	for left := attemptsOf(e.Type); left > 0; left-- {
		w.is("WaitingForRaft")
		began := time.Now()
		tx, err := w.snapshot(ctx, t.index)
		w.Metrics.Since("nomad.worker.wait_for_index", began)
		if err != nil {
			return err
		}
		if stored := tx.Eval(e.ID); stored == nil || stored.Terminal() {
			return nil
		}
		t.apart = left <= attemptsOf(e.Type)/2
		done, progress, o, err := w.attempt(ctx, d, tx, t)
		if done || err != nil {
			return err
		}
		last = o
		if progress {
			left = attemptsOf(e.Type) + 1
		}
	}
	why := fmt.Sprintf("maximum attempts reached (%d)", attemptsOf(e.Type))
	return d.update(ctx, t, scheduler.Failed(e, why, last, time.Now(), newID))
}

// snapshot is this server's state once it has what was there at the index.
func (s *Service) snapshot(ctx context.Context, index uint64) (*state.Txn, error) {
	tx := s.State.Read()
	if tx.Index() >= index {
		return tx, nil
	}
	ctx, cancel := context.WithTimeout(ctx, stateWait)
	defer cancel()
	keys := []state.Key{state.TableKey(state.TableEvals), state.TableKey(state.TableAllocs), state.TableKey(state.TableJobs), state.TableKey(state.TableNodes)}
	err := state.Until(ctx, s.State, keys, func(now *state.Txn) bool {
		tx = now
		return now.Index() >= index
	})
	if err != nil {
		return nil, fmt.Errorf("wait for state of index %d: %w", index, err)
	}
	return tx, nil
}

func (w *worker) attempt(ctx context.Context, d source, tx *state.Txn, t *task) (done, progress bool, o *scheduler.Output, err error) {
	f, err := w.fleets.Fleet(ctx)
	if err != nil {
		return false, false, nil, fmt.Errorf("fleet: %w", err)
	}
	w.is("Scheduling")
	e, now := t.eval, time.Now()
	w.quotas.At(tx.Line(), tx.TableIndex(state.TableAllocs, state.TableNamespaces, state.TableQuotas))
	began := time.Now()
	_, scheduling := tracing.Start(ctx, "schedule", "")
	o, evals, err := w.schedule(scheduler.Input{
		View: tx, Fleet: f, Eval: e, Now: now, NewID: newID, Seed: seedOf(e.ID, tx.Index()),
		Contended: t.contended, OppositeAlgorithm: t.apart, Rankings: &w.memory, Quotas: &w.quotas,
	}, tx)
	scheduling.End(err)
	w.Metrics.Since(invocation(e), began)
	if err != nil {
		return true, false, nil, fail(ctx, d, t, err.Error())
	}
	w.is("Submitting")
	began = time.Now()
	if o.Empty() {
		defer w.Metrics.Since("nomad.worker.update_eval", began)
		return true, false, o, d.update(ctx, t, evals)
	}
	o.Plan.EvalToken = t.token
	out, err := d.submit(ctx, t, plan.Submission{Plan: o.Plan, Evals: evals})
	w.Metrics.Since("nomad.worker.submit_plan", began)
	if err != nil {
		return false, false, o, fmt.Errorf("submit plan: %w", err)
	}
	t.index = max(t.index, out.AllocIndex, out.RefreshIndex)
	if !out.Whole {
		w.conflicts.Add(1)
		t.contended = append(t.contended, out.RejectedNodes...)
		w.Log.Debug("plan was refused in part", "eval", e.ID, "job", e.JobID, "nodes", out.RejectedNodes, "reasons", out.Reasons)
	}
	return out.Whole, progressed(out), o, nil
}

// schedule returns the scheduler's plan and the evaluations that belong to it. A panic of the scheduler becomes an error:
// otherwise the evaluation would be handed out again and crash every server in turn.
func (w *worker) schedule(in scheduler.Input, tx *state.Txn) (o *scheduler.Output, evals []*api.Evaluation, err error) {
	e := in.Eval
	if j := tx.Job(e.Namespace, e.JobID); j != nil {
		if err := rules.Excess(j, rules.AllocsMax); err != nil {
			return nil, nil, err
		}
	}
	defer func() {
		if r := recover(); r != nil {
			w.memory, w.quotas = scheduler.RankingCache{}, quota.Cache{}
			w.Log.Error("the scheduler panicked", "eval", e.ID, "job", e.JobID, "namespace", e.Namespace, "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("the scheduler panicked: %v", r)
		}
	}()
	o = scheduler.Schedule(in)
	return o, append(o.FollowUps, scheduler.Done(e, o, tx.Index(), in.Now, newID)...), nil
}

// progressed reports whether what was committed of a plan brings its job on. Another server's leader names the nodes only.
func progressed(out *plan.Outcome) bool {
	for _, list := range out.NodeAllocation {
		if len(list) == 0 || slices.ContainsFunc(list, bringsOn) {
			return true
		}
	}
	return len(out.NodeUpdate) > 0
}

// bringsOn reports whether the allocation is placed or updated to the job's version, not only marked as lost or unknown.
func bringsOn(a *api.Allocation) bool { return a.CreateIndex == 0 || a.Job == nil }

func fail(ctx context.Context, d source, t *task, why string) error {
	failed := *t.eval
	failed.Status, failed.StatusDescription = api.EvalStatusFailed, why
	return d.update(ctx, t, []*api.Evaluation{&failed})
}
