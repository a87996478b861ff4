package reconciler

import (
	"context"
	"strings"
	"sync"
	"time"
)

// key names something that the loop looks after: an external volume, a volume to be created, or a
// claim to be released.
type key struct {
	kind    string
	a, b, c string
}

// queue calls work for keys that were woken, one call per key at a time and again when the time that
// work answered has come; a zero time means that there is nothing left to do.
type queue struct {
	work  func(context.Context, key, *tries) time.Time
	pause func(ctx context.Context, what string)

	mu    sync.Mutex
	items map[key]*item
	wg    sync.WaitGroup
}

type item struct {
	running, again, afresh bool
	timer                  *time.Timer
	tries                  tries
}

func newQueue(work func(context.Context, key, *tries) time.Time, pause func(context.Context, string)) *queue {
	return &queue{work: work, pause: pause, items: map[key]*item{}}
}

// wake has the key looked at now; afresh forgets how often its calls failed.
func (q *queue) wake(ctx context.Context, k key, afresh bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	it := q.items[k]
	if it == nil {
		it = &item{tries: tries{}}
		q.items[k] = it
	}
	it.again, it.afresh = true, it.afresh || afresh
	if it.running {
		return
	}
	it.running = true
	if it.timer != nil {
		it.timer.Stop()
	}
	q.wg.Add(1)
	go q.run(ctx, k, it)
}

func (q *queue) run(ctx context.Context, k key, it *item) {
	defer q.wg.Done()
	for {
		q.pause(ctx, strings.Join([]string{k.kind, k.a, k.b, k.c}, " "))
		q.begin(it)
		next := q.work(ctx, k, &it.tries)
		if q.end(ctx, k, it, next) {
			return
		}
	}
}

func (q *queue) begin(it *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it.afresh {
		it.tries = it.tries.afresh()
	}
	it.again, it.afresh = false, false
}

// end reports whether the key can rest.
func (q *queue) end(ctx context.Context, k key, it *item, next time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it.again && ctx.Err() == nil {
		return false
	}
	it.running = false
	switch {
	case next.IsZero() || ctx.Err() != nil:
		delete(q.items, k)
	default:
		it.timer = time.AfterFunc(max(time.Until(next), time.Millisecond), func() { q.wake(ctx, k, false) })
	}
	return true
}

// drain waits for running work after ctx ended.
func (q *queue) drain() {
	q.mu.Lock()
	for _, it := range q.items {
		if it.timer != nil {
			it.timer.Stop()
		}
	}
	q.mu.Unlock()
	q.wg.Wait()
}
