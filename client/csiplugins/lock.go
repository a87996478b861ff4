package csiplugins

import (
	"context"
	"fmt"
	"sync"
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

// take waits for its turn. It returns an error when ctx ends first; the caller must not continue then.
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
