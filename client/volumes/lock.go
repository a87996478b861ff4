package volumes

import (
	"context"
	"fmt"
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
)

// locks lets one call per key through at a time.
type locks struct {
	mu   sync.Mutex
	held map[string]*turn
}

type turn struct {
	free    chan struct{} // holds one token while free
	waiters int
}

// take waits for its turn. When ctx ends first the error says so, and the caller must not go on.
func (l *locks) take(ctx context.Context, key string) (release func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*turn{}
	}
	t := l.held[key]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		l.held[key] = t
	}
	t.waiters++
	l.mu.Unlock()
	select {
	case <-t.free:
		return func() { t.free <- struct{}{}; l.leave(key, t) }, nil
	case <-ctx.Done():
		l.leave(key, t)
		return nil, fmt.Errorf("wait for another call of the volume: %w", ctx.Err())
	}
}

func (l *locks) leave(key string, t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.waiters--; t.waiters == 0 {
		delete(l.held, key)
	}
}

// fencesMax bounds the memory of fences.
const fencesMax = 100_000

// fences remembers the newest intent per object and refuses older ones: calls of a deposed leader may
// arrive late.
type fences struct {
	mu   sync.Mutex
	seen map[string]uint64
}

func (f *fences) pass(key string, fence uint64) error {
	if fence == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil || len(f.seen) > fencesMax {
		f.seen = map[string]uint64{}
	}
	if newest := f.seen[key]; fence < newest {
		return fault.New(fault.Conflict, "the call belongs to intent %d, and intent %d was seen already", fence, newest)
	}
	f.seen[key] = fence
	return nil
}
