package evals

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
)

const (
	// workersMax bounds how many workers a server may have.
	workersMax = 1024
	// A worker that cannot get work asks again after retryMin, and then ever later up to retryMax; a leader
	// that does not hand out work to this server is asked again after refusedWait.
	retryMin    = 20 * time.Millisecond
	retryMax    = 10 * time.Second
	refusedWait = 30 * time.Second
	// coreKind is a queue that the compatible API lists; garbage collection is no evaluation here.
	coreKind = "_core"
)

// pool is the workers of this server.
type pool struct {
	mu      sync.Mutex
	number  int
	kinds   []string
	changed chan struct{} // closed when number or kinds change
	workers []*worker
}

// worker processes one evaluation after the other.
type worker struct {
	*Service
	id      string
	kinds   []string
	started time.Time
	// memory caches the worker's rankings of the nodes of the fleet.
	memory scheduler.RankingCache
	// quotas caches what quotas use.
	quotas quota.Cache

	mu   sync.Mutex
	what string
}

func (w *worker) is(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.what = what
}

// Work keeps the fleet in step with the state and processes evaluations until ctx ends, whichever server leads.
func (s *Service) Work(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.fleets.Run(ctx) })
	g.Go(func() error { return s.staff(ctx) })
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// staff runs as many workers as are configured. Those of an older configuration finish what they have.
func (s *Service) staff(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		shift, end := context.WithCancel(ctx)
		s.pool.mu.Lock()
		changed := s.pool.changed
		s.pool.workers = nil
		for range s.pool.number {
			w := &worker{Service: s, id: newID(), kinds: s.pool.kinds, started: time.Now(), what: "WaitingToDequeue"}
			s.pool.workers = append(s.pool.workers, w)
			running.Go(func() { w.run(ctx, shift) })
		}
		s.pool.mu.Unlock()
		select {
		case <-changed:
			end()
		case <-ctx.Done():
			end()
			return ctx.Err()
		}
	}
}

// run takes work while the shift lasts; what it has taken it finishes while ctx lives.
func (w *worker) run(ctx, shift context.Context) {
	for pauses := retry.Between(retryMin, retryMax); shift.Err() == nil; {
		w.is("WaitingToDequeue")
		began := time.Now()
		d, t, err := w.find(shift)
		w.Metrics.Since("nomad.worker.dequeue_eval", began)
		if t != nil {
			w.serve(ctx, d, t)
		}
		if err == nil {
			pauses.Reset()
			continue
		}
		if shift.Err() != nil {
			return
		}
		wait := pauses.Next()
		if errors.Is(err, fault.Denied) || errors.Is(err, fault.Unimplemented) {
			w.Log.Info("the leader hands out no work to this server", "error", err, "retry_in", refusedWait)
			wait = refusedWait
		}
		w.is("Backoff")
		w.rest(shift, wait)
	}
}

// find gets work from the leader; nothing and no error when there was none for a while, or when the
// leader is another one now.
func (w *worker) find(ctx context.Context) (source, *task, error) {
	here, moved := w.leads()
	if here != nil {
		t, err := here.take(ctx, w.kinds)
		if errors.Is(err, fault.NotLeader) {
			return nil, nil, nil
		}
		return here, t, err
	}
	if w.Leader == nil {
		select {
		case <-moved:
		case <-ctx.Done():
		}
		return nil, nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-moved:
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() { cancel(); <-ended }()
	away := remote{w.Leader}
	t, err := away.take(ctx, w.kinds)
	if ctx.Err() != nil {
		err = nil
	}
	return away, t, err
}

// rest waits, but not beyond a change of leadership.
func (w *worker) rest(ctx context.Context, d time.Duration) {
	_, moved := w.leads()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-moved:
	case <-ctx.Done():
	}
}

// Workers describes what every worker of this server does now.
func (s *Service) Workers() []*api.SchedulerWorker {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	out := make([]*api.SchedulerWorker, 0, len(s.pool.workers))
	for _, w := range s.pool.workers {
		w.mu.Lock()
		out = append(out, &api.SchedulerWorker{
			ID: w.id, EnabledSchedulers: shown(w.kinds), Started: w.started.UTC(), Status: "Started", WorkloadStatus: w.what,
		})
		w.mu.Unlock()
	}
	return out
}

// shown are the kinds as the compatible API lists them.
func shown(kinds []string) []string { return append(slices.Clone(kinds), coreKind) }

// WorkerConfig is how many workers this server has, and which evaluations they take.
func (s *Service) WorkerConfig() (number int, kinds []string) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.pool.number, shown(s.pool.kinds)
}

// SetWorkerConfig changes that until the agent is started again. Workers finish what they have first.
func (s *Service) SetWorkerConfig(_ context.Context, number int, enabled []string) error {
	if number < 0 || number > workersMax {
		return fault.New(fault.Invalid, "number of schedulers %d is not between 0 and %d", number, workersMax)
	}
	chosen, err := KindsOf(enabled)
	if err != nil {
		return err
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.pool.number, s.pool.kinds = number, chosen
	close(s.pool.changed)
	s.pool.changed = make(chan struct{})
	return nil
}

// KindsOf checks names of schedulers and returns their queues.
func KindsOf(enabled []string) ([]string, error) {
	var chosen []string
	for _, k := range enabled {
		if k == coreKind {
			continue
		}
		if !slices.Contains(kinds, k) {
			return nil, fault.New(fault.Invalid, "scheduler %q is none of %v", k, shown(kinds))
		}
		if !slices.Contains(chosen, k) {
			chosen = append(chosen, k)
		}
	}
	return chosen, nil
}
