package reconciler

import (
	"maps"
	"sync"
	"time"
)

// troubled remembers which objects had a call that failed of late, whatever became of its intent: one after the other
// may be made for the same volume.
type troubled struct {
	keep time.Duration

	mu    sync.Mutex
	until map[object]time.Time
	swept time.Time
}

// object is what calls to a plugin are about.
type object struct{ plugin, id string }

func newTroubled(keep time.Duration) *troubled {
	return &troubled{keep: keep, until: map[object]time.Time{}}
}

func (t *troubled) note(plugin, id string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until[object{plugin, id}] = now.Add(t.keep)
	if now.Sub(t.swept) > t.keep {
		t.swept = now
		maps.DeleteFunc(t.until, func(_ object, until time.Time) bool { return !until.After(now) })
	}
}

func (t *troubled) lately(plugin, id string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until[object{plugin, id}].After(now)
}
