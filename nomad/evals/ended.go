package evals

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/retry"
)

const (
	// endedPause lets a few ended evaluations gather into one command, and endedAgain is when a command is
	// tried again that was not taken; endedMax bounds what one carries.
	endedPause = 50 * time.Millisecond
	endedAgain = time.Second
	endedMax   = 1024
	// A failed evaluation is followed by another after followUpMin and a random part of followUpJitter.
	followUpMin    = time.Minute
	followUpJitter = 5 * time.Minute

	whySuperseded = "canceled after a newer evaluation placed everything"
)

// ended gathers the evaluations that are superfluous, to be written as cancelled.
type ended struct {
	mu    sync.Mutex
	list  []*api.Evaluation
	ready chan struct{}
}

func newEnded() *ended { return &ended{ready: make(chan struct{}, 1)} }

func (e *ended) add(evals []*api.Evaluation) {
	if len(evals) == 0 {
		return
	}
	e.mu.Lock()
	e.list = append(e.list, evals...)
	e.mu.Unlock()
	select {
	case e.ready <- struct{}{}:
	default:
	}
}

func (e *ended) take() []*api.Evaluation {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.list
	e.list = nil
	return list
}

// end has the evaluations cancelled soon.
func (l *leader) end(evals []*api.Evaluation, why string) { l.over.add(cancel(evals, why)) }

// clean writes the evaluations that failed or were cancelled, and retries until they are written.
func (l *leader) clean(ctx context.Context) error {
	var writes []*api.Evaluation
	for {
		if len(writes) == 0 {
			select {
			case <-l.broker.Ended():
			case <-l.over.ready:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		pause := endedPause
		if len(writes) > 0 {
			pause = endedAgain
		}
		if !retry.Sleep(ctx, pause) {
			return ctx.Err()
		}
		failed, cancelled := l.broker.TakeEnded()
		writes = append(append(writes, l.over.take()...), cancel(cancelled, "canceled after more recent eval was processed")...)
		for _, e := range failed {
			writes = append(writes, giveUp(e, time.Now())...)
		}
		for len(writes) > 0 {
			n := min(endedMax, len(writes))
			if err := l.write(ctx, writes[:n]); err != nil {
				if ctx.Err() == nil {
					l.Log.Warn("ended evaluations are to be written yet", "evals", len(writes), "retry_in", endedAgain, "error", err)
				}
				break
			}
			writes = writes[n:]
		}
	}
}

func cancel(evals []*api.Evaluation, why string) []*api.Evaluation {
	var writes []*api.Evaluation
	for _, e := range evals {
		next := *e
		next.Status, next.StatusDescription = api.EvalStatusCancelled, why
		writes = append(writes, &next)
	}
	return writes
}

// giveUp fails an evaluation that no worker could process, and creates a later follow-up.
func giveUp(e *api.Evaluation, now time.Time) []*api.Evaluation {
	next := &api.Evaluation{
		ID: newID(), Namespace: e.Namespace, JobID: e.JobID, Type: e.Type, Priority: e.Priority,
		TriggeredBy: api.TriggerFailedFollowUp, JobModifyIndex: e.JobModifyIndex, PreviousEval: e.ID,
		Status: api.EvalStatusPending, WaitUntil: now.Add(followUpMin + rand.N(followUpJitter)),
		CreateTime: now.UnixNano(),
	}
	failed := *e
	failed.Status, failed.NextEval = api.EvalStatusFailed, next.ID
	failed.StatusDescription = "evaluation reached delivery limit"
	return []*api.Evaluation{&failed, next}
}
