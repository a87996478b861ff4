package evals

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	// retryMaxed is how often evaluations are tried again that used up their attempts.
	retryMaxed = time.Minute
	// endedPause lets a few cancelled evaluations gather into one command.
	endedPause = 50 * time.Millisecond
	// A failed evaluation is followed by another after followUpMin and a random part of followUpJitter.
	followUpMin    = time.Minute
	followUpJitter = 5 * time.Minute
)

// leader is one term of leadership: what it knows is forgotten with it.
type leader struct {
	*Service
	broker  *broker.Broker
	blocked *broker.Blocked
	plans   *plan.Applier
	// asks is the least that each blocked evaluation waits for; only follow uses it.
	asks   map[string]fleet.Amount
	paused bool
}

// Run hands out evaluations and commits plans while this server leads; [Service.Work] must run too.
func (s *Service) Run(ctx context.Context) error {
	l := &leader{
		Service: s, broker: broker.New(s.Broker), blocked: broker.NewBlocked(), asks: map[string]fleet.Amount{},
		plans: plan.NewApplier(plan.Config{
			State: s.State, Raft: s.Raft, Roster: s.roster, Log: s.Log, Rejections: s.Rejections, Ineligible: s.Ineligible,
		}),
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{l.broker.Run, l.plans.Run, l.follow, l.clean, l.retry} {
		g.Go(func() error { return run(ctx) })
	}
	s.setTerm(l)
	defer s.setTerm(nil)
	g.Go(func() error {
		<-ctx.Done()
		l.broker.Close()
		return ctx.Err()
	})
	return g.Wait()
}

func (s *Service) setTerm(l *leader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term = l
	close(s.moved)
	s.moved = make(chan struct{})
}

// leads is the term of this server's leadership, or nil; moved is closed when that changes.
func (s *Service) leads() (l *leader, moved <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term, s.moved
}

// follow keeps broker and tracker in step with the state.
func (l *leader) follow(ctx context.Context) error {
	f := l.State.Feed(
		state.TableEvals, state.TableNodes, state.TableAllocs, state.TableVolumes, state.TableClaims, state.TableAttachments, state.TableConfig,
	)
	defer f.Close()
	for {
		b, err := f.Next(ctx)
		if err != nil {
			return err
		}
		if b.Resync {
			l.pause(l.State.Read().SchedulerConfig().PauseEvalBroker)
			l.restore(ctx)
			continue
		}
		freed := map[string]bool{}
		for _, c := range b.Changes {
			l.changed(ctx, c, b.Index, freed)
		}
		l.nodesFreed(ctx, freed, b.Index)
	}
}

// pause switches handing out off or on.
func (l *leader) pause(off bool) {
	l.paused = off
	if !off {
		l.broker.Resume()
		return
	}
	l.broker.Pause()
	l.blocked.Clear()
	clear(l.asks)
}

// configured follows the switch of the scheduler configuration.
func (l *leader) configured(ctx context.Context, c *api.SchedulerConfiguration) {
	if c.PauseEvalBroker == l.paused {
		return
	}
	l.Log.Info("handing out of evaluations was switched", "paused", c.PauseEvalBroker)
	l.pause(c.PauseEvalBroker)
	l.restore(ctx)
}

// restore takes over everything from the state. What is blocked runs once if anything that could help
// it changed since its snapshot.
func (l *leader) restore(ctx context.Context) {
	if l.paused {
		return
	}
	tx := l.State.Read()
	changed := tx.TableIndex(state.TableNodes, state.TableAllocs, state.TableVolumes, state.TableClaims)
	for e := range tx.Evals(api.AllNamespaces) {
		if e.Status == api.EvalStatusBlocked && changed > e.SnapshotIndex {
			l.wake([]*api.Evaluation{e})
			continue
		}
		l.evalChanged(ctx, nil, e)
	}
}

// clean writes what the broker gave up or cancelled.
func (l *leader) clean(ctx context.Context) error {
	for {
		select {
		case <-l.broker.Ended():
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := sleep(ctx, endedPause); err != nil {
			return err
		}
		failed, cancelled := l.broker.TakeEnded()
		writes := cancel(cancelled, "canceled after more recent eval was processed")
		for _, e := range failed {
			writes = append(writes, giveUp(e, time.Now())...)
		}
		if err := l.write(ctx, writes); err != nil && ctx.Err() == nil {
			l.Log.Warn("ended evaluations were not written", "evals", len(writes), "error", err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
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

// giveUp fails an evaluation that nobody could process and has another one follow later.
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

// retry wakes those that used up their attempts from time to time.
func (l *leader) retry(ctx context.Context) error {
	for {
		if err := sleep(ctx, retryMaxed); err != nil {
			return err
		}
		l.wake(l.blocked.Triggered(api.TriggerMaxPlans))
	}
}
