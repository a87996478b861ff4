package reconciler

import (
	"container/list"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/workgroup"
)

// key names something that the loop looks after: an external volume, a volume to be created, or a
// claim to be released.
type key struct {
	kind    string
	a, b, c string
}

func (k key) String() string { return strings.Join([]string{k.kind, k.a, k.b, k.c}, " ") }

// queue calls work for keys that were woken, one call per key at a time and again when the time that
// work answered has come; a zero time means that there is nothing left to do.
type queue struct {
	work  func(context.Context, key, *tries) time.Time
	pause func(ctx context.Context, what string)
	// soon is how long a key waits that need not wait for its time any more.
	soon func(key) time.Duration

	mu    sync.Mutex
	items map[key]*item
	// hasty are the keys that wait for a success of a plugin, those first that wait the longest.
	hasty map[string]*list.List
	// running are the keys that are being reconciled.
	running workgroup.Group
}

type item struct {
	running, again, afresh bool
	timer                  *time.Timer
	tries                  tries
	// hasty is the place among those that wait for the plugin.
	hasty  *list.Element
	plugin string
}

func newQueue(work func(context.Context, key, *tries) time.Time, pause func(context.Context, string), soon func(key) time.Duration) *queue {
	return &queue{work: work, pause: pause, soon: soon, items: map[key]*item{}, hasty: map[string]*list.List{}}
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
		q.hasten(ctx, plugin)
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

// hastened is how many keys a success of their plugin has tried before their time. Each that succeeds then has as many
// others tried: what waited for a plugin follows as fast as it works, and nothing does while it does not.
const hastened = 4

func (q *queue) hasten(ctx context.Context, plugin string) {
	all := q.hasty[plugin]
	for range hastened {
		if all == nil || all.Len() == 0 {
			return
		}
		k := all.Front().Value.(key)
		it := q.items[k]
		q.unlist(it)
		it.tries.hasten(plugin)
		it.timer.Stop()
		it.timer = time.AfterFunc(q.soon(k), func() { q.wake(ctx, k, false) })
	}
}

// list has the key wait for a success of its plugin too, if it does.
func (q *queue) list(k key, it *item) {
	if it.plugin = it.tries.waitsFor(); it.plugin == "" {
		return
	}
	if q.hasty[it.plugin] == nil {
		q.hasty[it.plugin] = list.New()
	}
	it.hasty = q.hasty[it.plugin].PushBack(k)
}

func (q *queue) unlist(it *item) {
	if it.hasty != nil {
		q.hasty[it.plugin].Remove(it.hasty)
		it.hasty = nil
	}
}

// drain waits, bounded, for running work after ctx ended, and names what has not ended. That cannot propose anything
// any more, because its context has ended.
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
