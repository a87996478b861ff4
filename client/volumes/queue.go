package volumes

import (
	"context"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/plugins/csi"
)

// retryWorkers is how many rows are retried at once.
const retryWorkers = 8

// queue holds the keys of rows that must be taken down, each with the time of its next try.
type queue struct {
	backoff csi.Backoff
	wake    chan struct{}
	mu      sync.Mutex
	due     map[string]*attempt
}

type attempt struct {
	at      time.Time
	failed  int
	running bool
	// again is set when the key was added while its try ran.
	again bool
}

func newQueue(limit time.Duration) *queue {
	return &queue{backoff: csi.Backoff{First: min(time.Second, limit), Max: limit}, wake: make(chan struct{}, 1), due: map[string]*attempt{}}
}

// add plans a try at once; a key that is planned already stays as it is, one that is tried is tried again.
func (q *queue) add(key string) {
	q.mu.Lock()
	if a := q.due[key]; a == nil {
		q.due[key] = &attempt{}
	} else {
		a.again = a.running
	}
	q.mu.Unlock()
	q.poke()
}

// later plans a try after the first wait.
func (q *queue) later(key string) { q.after(key, 1) }

// after plans a try as after so many failures; 0 means at once.
func (q *queue) after(key string, failed int) {
	a := &attempt{failed: failed}
	if failed > 0 {
		a.at = time.Now().Add(q.backoff.Wait(failed))
	}
	q.mu.Lock()
	if q.due[key] == nil {
		q.due[key] = a
	}
	q.mu.Unlock()
	q.poke()
}

// hurry makes everything due, because something that may have been missing is there.
func (q *queue) hurry() {
	q.mu.Lock()
	for _, a := range q.due {
		a.at = time.Time{}
	}
	q.mu.Unlock()
	q.poke()
}

func (q *queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run tries what is due until ctx ends; try must be safe to be called for different keys at once.
func (q *queue) run(ctx context.Context, try func(context.Context, string) error) {
	var workers sync.WaitGroup
	defer workers.Wait()
	slots := make(chan struct{}, retryWorkers)
	for {
		key, wait := q.next()
		if key != "" {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			workers.Go(func() {
				q.done(key, try(ctx, key))
				<-slots
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
			return
		}
	}
}

// next takes a key that is due, or says how long nothing will be.
func (q *queue) next() (key string, wait time.Duration) {
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

func (q *queue) done(key string, err error) {
	q.mu.Lock()
	a := q.due[key]
	switch {
	case err == nil && a.again:
		q.due[key] = &attempt{}
	case err == nil:
		delete(q.due, key)
	default:
		a.failed++
		a.running, a.at = false, time.Now().Add(q.backoff.Wait(a.failed))
	}
	q.mu.Unlock()
	q.poke()
}
