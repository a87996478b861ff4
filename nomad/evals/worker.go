package evals

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// kinds are the queues that workers serve.
var kinds = []string{api.JobTypeService, api.JobTypeBatch, api.JobTypeSystem, api.JobTypeSysbatch}

// attemptsOf is how often an evaluation is tried again without progress.
func attemptsOf(kind string) int {
	switch kind {
	case api.JobTypeBatch, api.JobTypeSysbatch:
		return 2
	}
	return 5
}

// work processes evaluations until ctx ends.
func (l *leader) work(ctx context.Context) error {
	for {
		e, token, err := l.broker.Dequeue(ctx, kinds...)
		if err != nil {
			return err
		}
		if err := l.process(ctx, e, token); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			l.Log.Warn("evaluation will be tried again", "eval", e.ID, "job", e.JobID, "namespace", e.Namespace, "error", err)
			if err := l.broker.Nack(e.ID, token); err != nil {
				l.Log.Debug("evaluation was not given back", "eval", e.ID, "error", err)
			}
			continue
		}
		if err := l.broker.Ack(e.ID, token); err != nil {
			l.Log.Debug("evaluation was processed late", "eval", e.ID, "error", err)
		}
	}
}

// process runs the scheduler until its plan is committed as a whole or the attempts are used up.
func (l *leader) process(ctx context.Context, e *api.Evaluation, token string) error {
	if e.TriggeredBy == api.TriggerScheduled {
		return l.fail(ctx, e, fmt.Sprintf("unknown trigger %q", e.TriggeredBy))
	}
	var last *scheduler.Output
	for left := attemptsOf(e.Type); left > 0; left-- {
		if err := l.broker.Extend(e.ID, token); err != nil {
			return err
		}
		tx, err := l.snapshot(ctx, e)
		if err != nil {
			return err
		}
		if stored := tx.Eval(e.ID); stored == nil || stored.Terminal() {
			return nil
		}
		done, progress, o, err := l.attempt(ctx, tx, e)
		if done || err != nil {
			return err
		}
		last = o
		if progress {
			left = attemptsOf(e.Type) + 1
		}
	}
	why := fmt.Sprintf("maximum attempts reached (%d)", attemptsOf(e.Type))
	return l.update(ctx, scheduler.GaveUp(e, why, last, time.Now(), newID))
}

// snapshot is the state with the evaluation in it.
func (l *leader) snapshot(ctx context.Context, e *api.Evaluation) (*state.Txn, error) {
	tx := l.State.Read()
	if tx.Index() >= e.ModifyIndex {
		return tx, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := state.Until(ctx, l.State, []state.Key{state.EvalKey(e.ID)}, func(now *state.Txn) bool {
		tx = now
		return now.Index() >= e.ModifyIndex
	})
	if err != nil {
		return nil, fmt.Errorf("wait for state of index %d: %w", e.ModifyIndex, err)
	}
	return tx, nil
}

func (l *leader) attempt(ctx context.Context, tx *state.Txn, e *api.Evaluation) (done, progress bool, o *scheduler.Output, err error) {
	f, err := l.roster.Fleet(ctx)
	if err != nil {
		return false, false, nil, fmt.Errorf("fleet: %w", err)
	}
	now := time.Now()
	o = scheduler.Schedule(scheduler.Input{
		View: tx, Fleet: f, Eval: e, Now: now, NewID: newID, Seed: seedOf(e.ID, tx.Index()),
	})
	evals := append(o.FollowUps, scheduler.Done(e, o, tx.Index(), now, newID)...)
	if o.Empty() {
		return true, false, o, l.update(ctx, evals)
	}
	out, err := l.plans.Submit(ctx, plan.Submission{Plan: o.Plan, Evals: evals})
	if err != nil {
		return false, false, o, fmt.Errorf("submit plan: %w", err)
	}
	if !out.Whole {
		l.Log.Debug("plan was refused in part", "eval", e.ID, "job", e.JobID, "nodes", out.RejectedNodes, "reasons", out.Reasons)
	}
	return out.Whole, len(out.NodeAllocation)+len(out.NodeUpdate) > 0, o, nil
}

func (l *leader) update(ctx context.Context, evals []*api.Evaluation) error {
	if len(evals) == 0 {
		return nil
	}
	if _, err := l.Raft.Propose(ctx, &Update{Evals: evals}); err != nil {
		return fmt.Errorf("write evaluations: %w", err)
	}
	return nil
}

func (l *leader) fail(ctx context.Context, e *api.Evaluation, why string) error {
	failed := *e
	failed.Status, failed.StatusDescription = api.EvalStatusFailed, why
	return l.update(ctx, []*api.Evaluation{&failed})
}
