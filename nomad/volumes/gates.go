package volumes

import (
	"context"
	"slices"
	"sync"
	"time"
)

// gates bound the calls in flight, by name. A gate stays when it was used once: there are a few per
// plugin and node.
type gates struct {
	mu    sync.Mutex
	all   map[string]chan struct{}
	turns map[string]*turn
}

// turn lets one call after the other pass, first come first served, and all while one of them is slow.
type turn struct {
	in, slow int
	waiting  []chan struct{}
}

func newGates() *gates { return &gates{all: map[string]chan struct{}{}, turns: map[string]*turn{}} }

// enter waits for a place; leave must be called when it answers no error.
func (g *gates) enter(ctx context.Context, name string, width int) (leave func(), err error) {
	g.mu.Lock()
	gate := g.all[name]
	if gate == nil {
		gate = make(chan struct{}, width)
		g.all[name] = gate
	}
	g.mu.Unlock()
	select {
	case gate <- struct{}{}:
		return func() { <-gate }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// turn waits until no other call of the name is in flight, or until one of them lasts longer than
// slowAfter: what hangs holds up nobody else. leave must be called when it answers no error.
func (g *gates) turn(ctx context.Context, name string, slowAfter time.Duration) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.turns[name]
	if t == nil {
		t = &turn{}
		g.turns[name] = t
	}
	mine := make(chan struct{})
	t.waiting = append(t.waiting, mine)
	t.admit()
	g.mu.Unlock()
	select {
	case <-mine:
		err = nil
	case <-ctx.Done():
		err = ctx.Err()
	}
	g.mu.Lock()
	if err == nil {
		return g.inside(t, slowAfter), nil
	}
	if i := slices.Index(t.waiting, mine); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else {
		t.in-- // it was let in meanwhile
		t.admit()
	}
	return nil, err
}

// admit lets those in who may go; the lock is held.
func (t *turn) admit() {
	for len(t.waiting) > 0 && (t.in == 0 || t.slow > 0) {
		close(t.waiting[0])
		t.waiting = t.waiting[1:]
		t.in++
	}
}

// inside watches a call that was let in, and answers how it leaves.
func (g *gates) inside(t *turn, slowAfter time.Duration) (leave func()) {
	slow, left := 0, false
	timer := time.AfterFunc(slowAfter, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !left {
			slow = 1
			t.slow++
			t.admit()
		}
	})
	return func() {
		timer.Stop()
		g.mu.Lock()
		defer g.mu.Unlock()
		left = true
		t.in, t.slow = t.in-1, t.slow-slow
		t.admit()
	}
}
