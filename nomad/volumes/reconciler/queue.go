package reconciler

import (
	"container/list"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/workgroup"
)

// key names an object of the loop: an external volume, a volume to be created, or a claim to be released.
type key struct {
	kind    string
	a, b, c string
}

func (k key) String() string { return strings.Join([]string{k.kind, k.a, k.b, k.c}, " ") }

// queue calls work for keys that were woken, one call per key at a time, and again at the time that work returns; a zero
// time means that there is nothing left to do.
type queue struct {
	work  func(context.Context, key, *tries) time.Time
	pause func(ctx context.Context, what string)
	// soon returns how long a key waits that is retried early.
	soon func(key) time.Duration

	mu    sync.Mutex
	items map[key]*item
	// waiting lists by plugin the keys that wait for a success of the plugin, in the order in which they began to wait.
	waiting map[string]*list.List
	// running are the keys that are being reconciled.
	running workgroup.Group
}

type item struct {
	running, again, afresh bool
	timer                  *time.Timer
	tries                  tries
	// waits is the element in the list of keys that wait for the plugin.
	waits  *list.Element
	plugin string
}

func newQueue(work func(context.Context, key, *tries) time.Time, pause func(context.Context, string), soon func(key) time.Duration) *queue {
	return &queue{work: work, pause: pause, soon: soon, items: map[key]*item{}, waiting: map[string]*list.List{}}
}

// wake has the key reconciled now; afresh forgets how often its calls failed.
func (q *queue) wake(ctx context.Context, k key, afresh bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	it := q.items[k]
	if it == nil {
		it = &item{tries: newTries()}
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
	q.unlist(it)
	q.running.Go(k.String(), func() { q.run(ctx, k, it) })
}

func (q *queue) run(ctx context.Context, k key, it *item) {
	for {
		q.pause(ctx, k.String())
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
	for plugin := range it.tries.passed {
		q.retryEarly(ctx, plugin)
	}
	clear(it.tries.passed)
	if it.again && ctx.Err() == nil {
		return false
	}
	it.running = false
	if next.IsZero() || ctx.Err() != nil {
		delete(q.items, k)
		return true
	}
	wait := max(time.Until(next), time.Millisecond)
	it.timer = time.AfterFunc(wait, func() { q.wake(ctx, k, false) })
	q.list(k, it)
	return true
}

// woken is how many waiting keys a success of their plugin retries early. Each success wakes as many others, so the backlog
// drains at the plugin's speed, and not at all while the plugin fails.
const woken = 4

func (q *queue) retryEarly(ctx context.Context, plugin string) {
	all := q.waiting[plugin]
	for range woken {
		if all == nil || all.Len() == 0 {
			return
		}
		k := all.Front().Value.(key)
		it := q.items[k]
		q.unlist(it)
		it.tries.retryEarly(plugin)
		it.timer.Stop()
		it.timer = time.AfterFunc(q.soon(k), func() { q.wake(ctx, k, false) })
	}
}

// list adds the key to those that wait for a success of their plugin, if it waits for one.
func (q *queue) list(k key, it *item) {
	if it.plugin = it.tries.waitsFor(); it.plugin == "" {
		return
	}
	if q.waiting[it.plugin] == nil {
		q.waiting[it.plugin] = list.New()
	}
	it.waits = q.waiting[it.plugin].PushBack(k)
}

func (q *queue) unlist(it *item) {
	if it.waits != nil {
		q.waiting[it.plugin].Remove(it.waits)
		it.waits = nil
	}
}

// drain waits, bounded, for running work after ctx ended, and returns the names of work that still runs. Its context has
// ended, so it proposes nothing more.
func (q *queue) drain() (left []string) {
	q.mu.Lock()
	for _, it := range q.items {
		if it.timer != nil {
			it.timer.Stop()
		}
	}
	q.mu.Unlock()
	return q.running.Wait()
}
