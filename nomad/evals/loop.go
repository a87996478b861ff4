package evals

import (
	"cmp"
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// retryMaxed is how often evaluations are tried again that used up their attempts.
const retryMaxed = time.Minute

// followed are the tables whose changes concern evaluations.
var followed = []string{
	state.TableEvals, state.TableNodes, state.TableAllocs, state.TableJobs, state.TableVolumes, state.TableClaims,
	state.TableAttachments, state.TableHostVolumeClaims, state.TableConfig, state.TableQuotas, state.TableNamespaces,
}

// leader holds the state of one term of leadership, which is discarded when the term ends.
type leader struct {
	*Service
	broker  *broker.Broker
	blocked *broker.Blocked
	plans   *plan.Applier
	over    *ended
	// What follows is used by follow only, but for seen.
	*capacity
	// unfiled are evaluations that were blocked when the term began and are not filed yet.
	unfiled []string
	paused  bool
	seen    progress
}

// progress is how far follow has come.
type progress struct {
	mu    sync.Mutex
	index uint64
	moved chan struct{} // closed when index changes
}

func (p *progress) reach(index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.index = index
	close(p.moved)
	p.moved = make(chan struct{})
}

// Run hands out evaluations and commits plans while this server leads; [Service.Work] must run too.
func (s *Service) Run(ctx context.Context) error {
	l := &leader{
		Service: s, broker: broker.New(s.Broker), over: newEnded(), capacity: newCapacity(s.State, s.fleets.Fleet),
		plans: plan.NewApplier(plan.Config{
			State: s.State, Raft: s.Raft, FleetCache: s.fleets, Log: s.Log, Rejections: s.Rejections, Ineligible: s.Ineligible, Metrics: s.Metrics,
		}),
		seen: progress{moved: make(chan struct{})},
	}
	l.blocked = broker.NewBlocked(l.fits)
	g, ctx := errgroup.WithContext(ctx)
	changes := make(chan state.Batch)
	feed := l.State.Feed(followed...)
	defer feed.Close()
	g.Go(func() error { return pass(ctx, feed, changes) })
	g.Go(func() error { return l.follow(ctx, changes) })
	for _, run := range []func(context.Context) error{l.broker.Run, l.plans.Run, l.clean, l.retry, l.sweep} {
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

// pass hands changes over one batch at a time.
func pass(ctx context.Context, f *state.Feed, to chan<- state.Batch) error {
	for {
		b, err := f.Next(ctx)
		if err != nil {
			return err
		}
		select {
		case to <- b:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow keeps broker and tracker in step with the state. What changes goes before what is left of the time before
// the term.
func (l *leader) follow(ctx context.Context, changes <-chan state.Batch) error {
	for {
		var err error
		if len(l.unfiled) > 0 {
			select {
			case b := <-changes:
				err = l.handle(ctx, b)
			default:
				l.fileSome()
			}
		} else {
			select {
			case b := <-changes:
				err = l.handle(ctx, b)
			case <-ctx.Done():
			}
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
	}
}

func (l *leader) handle(ctx context.Context, b state.Batch) error {
	if err := l.look(ctx); err != nil {
		return err
	}
	if b.Resync {
		b.Index = l.State.Read().Index()
		l.pause(l.State.Read().SchedulerConfig().PauseEvalBroker)
		l.restore()
	}
	freed := map[string]bool{}
	for _, c := range b.Changes {
		l.changed(c, b.Index, freed)
	}
	l.nodesFreed(freed, b.Index)
	l.seen.reach(b.Index)
	return nil
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
	l.unfiled = nil
}

// configured follows the scheduler configuration.
func (l *leader) configured(before, now *api.SchedulerConfiguration) {
	if now.PauseEvalBroker != l.paused {
		l.Log.Info("handing out of evaluations was switched", "paused", now.PauseEvalBroker)
		l.pause(now.PauseEvalBroker)
		l.restore()
		return
	}
	l.wake(l.blocked.Where(func(e *api.Evaluation) bool {
		return mayEvict(e.Type, now.PreemptionConfig) && (before == nil || !mayEvict(e.Type, before.PreemptionConfig))
	}))
}

// retry wakes those that used up their attempts from time to time.
func (l *leader) retry(ctx context.Context) error {
	for {
		if !retry.Sleep(ctx, retryMaxed) {
			return ctx.Err()
		}
		l.wake(l.blocked.Where(func(e *api.Evaluation) bool { return e.TriggeredBy == api.TriggerMaxPlans }))
	}
}
