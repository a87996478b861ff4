package evals

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	// sweepEvery is how often some blocked evaluations are tried without an event, sweepMax is how many.
	sweepEvery = time.Minute
	sweepMax   = 256
	// sweepGrace is how long ago something must have been due to count as missed: its evaluation may be on its way.
	sweepGrace = 2 * time.Second
	// caughtUpWait bounds how long a find waits for the loop that wakes to have seen what the find saw.
	caughtUpWait = 5 * time.Second
)

// MissedWakes returns how many blocked evaluations this server found, while it led, that could have run and that no
// event had woken. Each is a bug in the rules that wake evaluations.
func (s *Service) MissedWakes() uint64 { return s.missed.Load() }

// sweep tries from time to time whether blocked evaluations could run after all, and wakes those that could.
func (l *leader) sweep(ctx context.Context) error {
	for {
		if !retry.Sleep(ctx, l.SweepEvery) {
			return ctx.Err()
		}
		for _, e := range l.blocked.Some(sweepMax) {
			if err := l.tryOut(ctx, e); err != nil {
				return err
			}
		}
	}
}

// tryOut wakes the evaluation when a dry run places something that it could not place.
func (l *leader) tryOut(ctx context.Context, e *api.Evaluation) error {
	if e.TriggeredBy == api.TriggerMaxPlans || l.broker.Busy(e.Namespace, e.JobID) {
		return ctx.Err()
	}
	tx := l.State.Read()
	f, err := l.fleets.Fleet(ctx)
	if err != nil {
		return err
	}
	o := scheduler.Schedule(scheduler.Input{
		View: tx, Fleet: f, Eval: e, Now: time.Now().Add(-sweepGrace), NewID: newID, Seed: seedOf(e.ID, tx.Index()),
	})
	if !places(o, e) {
		return nil
	}
	if !l.caughtUp(ctx, tx) || l.broker.Busy(e.Namespace, e.JobID) {
		return ctx.Err()
	}
	if woken := l.blocked.Take(e); len(woken) > 0 {
		l.missed.Add(1)
		l.Log.Warn("a blocked evaluation could run and was not woken", "eval", e.ID, "job", e.JobID, "namespace", e.Namespace)
		l.wake(woken)
	}
	return nil
}

// places reports whether the run places something of a group that the evaluation could not place, where it waits.
func places(o *scheduler.Output, e *api.Evaluation) bool {
	for _, list := range o.Plan.NodeAllocation {
		for _, a := range list {
			here := e.NodeID == "" || a.NodeID == e.NodeID
			if here && a.CreateIndex == 0 && (len(e.FailedTGAllocs) == 0 || e.FailedTGAllocs[a.TaskGroup] != nil) {
				return true
			}
		}
	}
	return false
}

// caughtUp waits until the loop that wakes has seen what the snapshot shows.
func (l *leader) caughtUp(ctx context.Context, tx *state.Txn) bool {
	ctx, cancel := context.WithTimeout(ctx, caughtUpWait)
	defer cancel()
	want := tx.TableIndex(followed...)
	for {
		l.seen.mu.Lock()
		at, moved := l.seen.index, l.seen.moved
		l.seen.mu.Unlock()
		if at >= want {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}
