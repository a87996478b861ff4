package broker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/deadlines"
	"github.com/open-nomad/open-nomad/internal/metrics"
)

// Config holds the broker's limits; zero fields take their defaults.
type Config struct {
	// NackTimeout ends a delivery that is not acknowledged; default 60 s.
	NackTimeout time.Duration
	// DeliveryLimit is how often an evaluation is handed out before it fails; default 3.
	DeliveryLimit int
	// FirstDelay and NextDelay are waits before a nacked evaluation is ready again: the first, and what
	// each further nack adds; defaults 1 s and 20 s.
	FirstDelay, NextDelay time.Duration
	// NewToken makes the token of a delivery.
	NewToken func() string
	// Metrics records how long evaluations wait and are processed; nil does not.
	Metrics *metrics.Recorder
}

// Broker is the queue of evaluations.
type Broker struct {
	cfg Config

	mu    sync.Mutex
	items map[string]*item
	jobs  map[jobKey]*jobQueue
	ready map[string]*readyQueue
	// clock has what is to be done with an item at a time, while that is the deadline of the state that the item is in.
	clock  deadlines.Heap[*item, func()]
	rearm  chan struct{}
	arrive chan struct{} // closed when something became ready

	failed, cancelled []*api.Evaluation
	ended             chan struct{}

	paused bool
	closed bool
	over   chan struct{} // closed by Close
}

type jobKey struct{ namespace, id string }

type item struct {
	eval       *api.Evaluation
	deliveries int
	// woken is set when it was blocked before.
	woken bool
	token string // set while out
	// queued is when it became ready for the first time, out when it was handed out.
	queued, out time.Time
	// patience replaces the nack timeout for one delivery when it is set.
	patience time.Duration
	// again is a version that came while out: it follows after the ack.
	again *api.Evaluation
}

// jobQueue is one job: the evaluation that is ready, out or about to be retried, and those that wait for it.
type jobQueue struct {
	active  *item
	waiting []*item
}

// New makes a broker; Run serves its timers.
func New(cfg Config) *Broker {
	if cfg.NackTimeout == 0 {
		cfg.NackTimeout = time.Minute
	}
	if cfg.DeliveryLimit == 0 {
		cfg.DeliveryLimit = 3
	}
	if cfg.FirstDelay == 0 {
		cfg.FirstDelay = time.Second
	}
	if cfg.NextDelay == 0 {
		cfg.NextDelay = 20 * time.Second
	}
	return &Broker{
		cfg: cfg, items: map[string]*item{}, jobs: map[jobKey]*jobQueue{}, ready: map[string]*readyQueue{},
		rearm: make(chan struct{}, 1), arrive: make(chan struct{}), ended: make(chan struct{}, 1),
		over: make(chan struct{}),
	}
}

func keyOf(e *api.Evaluation) jobKey { return jobKey{e.Namespace, e.JobID} }

// Enqueue takes an evaluation in. One that is known already is taken once; one that is out now is
// handed out again after its ack. A paused broker takes nothing.
func (b *Broker) Enqueue(e *api.Evaluation) { b.take(e, false) }

// Wake takes an evaluation in that was blocked: fresh ones of its priority go before it.
func (b *Broker) Wake(e *api.Evaluation) { b.take(e, true) }

func (b *Broker) take(e *api.Evaluation, woken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.paused {
		b.enqueue(e, woken)
	}
}

func (b *Broker) enqueue(e *api.Evaluation, woken bool) {
	if known := b.items[e.ID]; known != nil {
		if known.token != "" {
			known.again = e
		}
		return
	}
	it := &item{eval: e, woken: woken}
	b.items[e.ID] = it
	if at := startOf(e); at.After(time.Now()) {
		b.after(it, at, func() { b.admit(it) })
		return
	}
	b.admit(it)
}

// StartOf is when an evaluation may be handed out; zero is at once.
func StartOf(e *api.Evaluation) time.Time { return startOf(e) }

// startOf is when the evaluation may be handed out.
func startOf(e *api.Evaluation) time.Time {
	if e.WaitUntil.IsZero() && e.Wait > 0 {
		return time.Unix(0, e.CreateTime).Add(e.Wait)
	}
	return e.WaitUntil
}

// admit makes the evaluation ready, or lets it wait for the one of its job.
func (b *Broker) admit(it *item) {
	key := keyOf(it.eval)
	q := b.jobs[key]
	if q == nil {
		q = &jobQueue{}
		b.jobs[key] = q
	}
	if q.active != nil {
		q.waiting = append(q.waiting, it)
		return
	}
	q.active = it
	b.makeReady(it)
}

func (b *Broker) makeReady(it *item) {
	kind := it.eval.Type
	if b.ready[kind] == nil {
		b.ready[kind] = &readyQueue{}
	}
	if it.queued.IsZero() {
		it.queued = time.Now()
	}
	b.ready[kind].push(it)
	close(b.arrive)
	b.arrive = make(chan struct{})
}

// Dequeue waits for an evaluation of one of the kinds and returns it with the token of its delivery.
func (b *Broker) Dequeue(ctx context.Context, kinds ...string) (*api.Evaluation, string, error) {
	for {
		b.mu.Lock()
		var it *item
		if !b.closed {
			it = b.pop(kinds)
		}
		arrive := b.arrive
		if it != nil {
			e, token := b.deliver(it)
			b.mu.Unlock()
			return e, token, nil
		}
		b.mu.Unlock()
		select {
		case <-arrive:
		case <-b.over:
			return nil, "", fault.New(fault.NotLeader, "evaluations are not handed out here any more")
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
}

// pop takes the best of the kinds' queues.
func (b *Broker) pop(kinds []string) *item {
	var best *readyQueue
	for _, k := range kinds {
		q := b.ready[k]
		if q != nil && q.len() > 0 && (best == nil || before(q.top(), best.top())) {
			best = q
		}
	}
	if best == nil {
		return nil
	}
	return best.pop()
}

func (b *Broker) deliver(it *item) (*api.Evaluation, string) {
	it.deliveries++
	it.out = time.Now()
	b.measure("nomad.broker.wait_time", it, it.queued)
	it.token, it.patience = b.cfg.NewToken(), 0
	token := it.token
	b.expect(it)
	return it.eval, token
}

// expect starts the nack timer of a delivery.
func (b *Broker) expect(it *item) {
	token := it.token
	b.after(it, time.Now().Add(cmp.Or(it.patience, b.cfg.NackTimeout)), func() { b.giveBack(it, token) })
}

func (b *Broker) out(id, token string) (*item, error) {
	it := b.items[id]
	if it == nil || it.token == "" || it.token != token {
		return nil, fault.New(fault.Conflict, "evaluation %s is not out with this token", id)
	}
	return it, nil
}

// Ack ends a delivery: the evaluation is processed. The best one of its job that waited follows.
func (b *Broker) Ack(id, token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	it, err := b.out(id, token)
	if err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	it.token = ""
	b.measure("nomad.broker.process_time", it, it.out)
	b.measure("nomad.broker.response_time", it, it.queued)
	b.finish(it, true)
	if it.again != nil {
		b.enqueue(it.again, it.again.TriggeredBy == api.TriggerQueuedAllocs)
	}
	return nil
}

// finish forgets the item and lets the next one of its job follow.
func (b *Broker) finish(it *item, cancelOthers bool) {
	b.stop(it)
	delete(b.items, it.eval.ID)
	key := keyOf(it.eval)
	q := b.jobs[key]
	if q == nil || q.active != it {
		return
	}
	q.active = nil
	if len(q.waiting) == 0 {
		delete(b.jobs, key)
		return
	}
	slices.SortStableFunc(q.waiting, func(x, y *item) int {
		if d := y.eval.Priority - x.eval.Priority; d != 0 {
			return d
		}
		return int(int64(y.eval.ModifyIndex) - int64(x.eval.ModifyIndex))
	})
	q.active = q.waiting[0]
	q.waiting = q.waiting[1:]
	b.makeReady(q.active)
	if !cancelOthers {
		return
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(other *item) bool {
		if other.eval.TriggeredBy == api.TriggerQueuedAllocs && other.eval.NodeID != "" {
			return false // others count on it to wait for its node
		}
		delete(b.items, other.eval.ID)
		b.cancelled = append(b.cancelled, other.eval)
		return true
	})
	b.signal()
}

// Nack ends a delivery without success: the evaluation is handed out again later.
func (b *Broker) Nack(id, token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	it, err := b.out(id, token)
	if err != nil {
		return fmt.Errorf("nack: %w", err)
	}
	b.giveBack(it, token)
	return nil
}

func (b *Broker) giveBack(it *item, token string) {
	if it.token != token {
		return
	}
	it.token = ""
	if it.again != nil {
		it.eval, it.again = it.again, nil
	}
	if it.deliveries >= b.cfg.DeliveryLimit {
		b.failed = append(b.failed, it.eval)
		b.finish(it, false)
		b.signal()
		return
	}
	delay := b.cfg.FirstDelay
	if it.deliveries > 1 {
		delay = time.Duration(it.deliveries-1) * b.cfg.NextDelay
	}
	b.after(it, time.Now().Add(delay), func() { b.makeReady(it) })
}

// Forget drops an evaluation that was finished elsewhere; one that is out stays until its ack.
func (b *Broker) Forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if it := b.items[id]; it != nil && it.token == "" {
		b.drop(it)
	}
}

func (b *Broker) drop(it *item) {
	b.stop(it)
	if q := b.jobs[keyOf(it.eval)]; q != nil {
		q.waiting = slices.DeleteFunc(q.waiting, func(x *item) bool { return x == it })
		if q.active == it {
			if r := b.ready[it.eval.Type]; r != nil {
				r.remove(it)
			}
			b.finish(it, false)
		}
	}
	delete(b.items, it.eval.ID)
}

func (b *Broker) signal() {
	select {
	case b.ended <- struct{}{}:
	default:
	}
}

// Ended signals that TakeEnded has something.
func (b *Broker) Ended() <-chan struct{} { return b.ended }

// TakeEnded returns the evaluations that failed and those that were cancelled since the last call.
func (b *Broker) TakeEnded() (failed, cancelled []*api.Evaluation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	failed, cancelled = b.failed, b.cancelled
	b.failed, b.cancelled = nil, nil
	return failed, cancelled
}

// measure records the time since the start. The job is not among the labels: each would have distributions of its own.
func (b *Broker) measure(name string, it *item, start time.Time) {
	if b.cfg.Metrics == nil {
		return
	}
	b.cfg.Metrics.Since(name, start, metrics.Label{Name: "namespace", Value: it.eval.Namespace},
		metrics.Label{Name: "eval_type", Value: it.eval.Type}, metrics.Label{Name: "triggered_by", Value: it.eval.TriggeredBy})
}

// delayedMax is how many delayed evaluations [Stats] lists.
const delayedMax = 100

// Stats counts evaluations by where they are.
type Stats struct {
	Ready, Out, Waiting, Delayed, Cancelable int
	// ReadyOf and OutOf count by type of job.
	ReadyOf, OutOf map[string]int
	// Starts are some of the delayed evaluations, with when they may be handed out.
	Starts []*api.Evaluation
}

// Stats returns how many evaluations are in each state.
func (b *Broker) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Stats{Cancelable: len(b.cancelled), ReadyOf: map[string]int{}, OutOf: map[string]int{}}
	for _, it := range b.items {
		switch q := b.jobs[keyOf(it.eval)]; {
		case it.token != "":
			s.Out++
			s.OutOf[it.eval.Type]++
		case b.due(it):
			s.Delayed++
			if len(s.Starts) < delayedMax {
				s.Starts = append(s.Starts, it.eval)
			}
		case q != nil && q.active == it:
			s.Ready++
			s.ReadyOf[it.eval.Type]++
		default:
			s.Waiting++
		}
	}
	return s
}
