package workqueue

import (
	"context"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/workgroup"
	"github.com/open-nomad/open-nomad/plugins/csi"
)

const (
	// workers is how many keys are tried at once.
	workers = 8
	// placeMax is for how long a try counts as one of them: one that hangs is followed apart.
	placeMax = 10 * time.Second
)

// Queue holds keys, each with the time of its next try.
type Queue struct {
	// Chance returns a duration below the bound for the jitter of a key's wait; nil means any. It is set before
	// the queue is used, as Begin is.
	Chance func(key string, below time.Duration) time.Duration
	// Begin is called when a try is due, before it begins; nil means nothing is.
	Begin func(ctx context.Context, key string)

	backoff csi.Backoff
	wake    chan struct{}
	mu      sync.Mutex
	due     map[string]*attempt
}

type attempt struct {
	at      time.Time
	failed  int
	running bool
	// hastened is set when the next try of a key that is being tried is due at once.
	hastened bool
	// again is the next try when the key was added while this one ran.
	again *attempt
}

// New returns an empty queue whose waits between tries grow up to limit.
func New(limit time.Duration) *Queue {
	return &Queue{backoff: csi.Backoff{First: min(time.Second, limit), Max: limit}, wake: make(chan struct{}, 1), due: map[string]*attempt{}}
}

// Add plans a try now. A key that is planned already stays as it is; one that is being tried is tried again.
func (q *Queue) Add(key string) { q.After(key, 0) }

// Later plans a try after the first wait.
func (q *Queue) Later(key string) { q.After(key, 1) }

// After plans a try as after so many failures; 0 means now. A key that is planned already stays as it is; one that
// is being tried is tried again after the wait.
func (q *Queue) After(key string, failed int) {
	a := &attempt{failed: failed}
	if failed > 0 {
		a.at = time.Now().Add(q.wait(key, failed))
	}
	q.mu.Lock()
	if now := q.due[key]; now == nil {
		q.due[key] = a
	} else if now.running && now.again == nil {
		now.again = a
	}
	q.mu.Unlock()
	q.notify()
}

// Hurry makes everything due now, because something that was missing may have come.
func (q *Queue) Hurry() {
	q.mu.Lock()
	for _, a := range q.due {
		a.at = time.Time{}
		if a.again != nil {
			a.again.at = time.Time{}
		}
	}
	q.mu.Unlock()
	q.notify()
}

// Hasten makes the next try of a key due now, if one is planned. One that is being tried is tried again.
func (q *Queue) Hasten(key string) {
	q.mu.Lock()
	a := q.due[key]
	switch {
	case a == nil:
	case a.running:
		a.hastened = true
	default:
		a.at = time.Time{}
	}
	q.mu.Unlock()
	q.notify()
}

// wait is the wait after so many failed tries of a key.
func (q *Queue) wait(key string, failed int) time.Duration {
	b := q.backoff
	if q.Chance != nil {
		b.Chance = func(below time.Duration) time.Duration { return q.Chance(key, below) }
	}
	return b.Wait(failed)
}

func (q *Queue) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Run tries what is due until ctx ends. A key whose try returns an error is tried again after a wait. try is
// called for different keys at once, never twice at once for one key. Tries that hang are left behind, and named.
func (q *Queue) Run(ctx context.Context, try func(context.Context, string) error) (left []string) {
	var running workgroup.Group
	defer func() { left = running.Wait() }()
	slots := make(chan struct{}, workers)
	for {
		key, wait := q.next()
		if key != "" {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			running.Go(key, func() {
				leave := sync.OnceFunc(func() { <-slots })
				timer := time.AfterFunc(placeMax, leave)
				defer leave()
				defer timer.Stop()
				if q.Begin != nil {
					q.Begin(ctx, key)
				}
				q.done(key, try(ctx, key))
			})
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-q.wake:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// next takes a key that is due, or returns how long none will be.
func (q *Queue) next() (key string, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	wait = time.Hour
	for k, a := range q.due {
		switch {
		case a.running:
		case !a.at.After(now):
			a.running = true
			return k, 0
		default:
			wait = min(wait, a.at.Sub(now))
		}
	}
	return "", wait
}

func (q *Queue) done(key string, err error) {
	q.mu.Lock()
	a := q.due[key]
	switch {
	case err == nil && a.again != nil:
		q.due[key] = a.again
	case err == nil:
		delete(q.due, key)
	default:
		a.failed++
		a.again = nil
		a.running, a.at = false, time.Now().Add(q.wait(key, a.failed))
		if a.hastened {
			a.hastened, a.at = false, time.Time{}
		}
	}
	q.mu.Unlock()
	q.notify()
}
