package reconciler

import (
	"context"
	"slices"
	"sync"
	"time"
)

// places bound the calls in flight by name. A call that lasts longer than its width says gives its place up
// and is followed apart: what hangs takes nothing from anybody else. A name stays when it was used once:
// there are a few per plugin and node.
type places struct {
	mu  sync.Mutex
	all map[string]*place
}

// width is how many calls of a name may be in flight.
type width struct {
	// usual counts the calls that are not slow yet, beside those while others of the name are slow.
	usual, beside int
	// slowAfter is how long a call counts.
	slowAfter time.Duration
}

// hungMax bounds the slow calls of one name: beyond it others of the name wait for one of them to end.
const hungMax = 64

type place struct {
	in, slow int
	waiting  []waiter
}

type waiter struct {
	admitted chan struct{}
	width    width
}

func newPlaces() *places { return &places{all: map[string]*place{}} }

// enter waits for a place, first come first served. It reports whether others of the name are slow; leave must
// be called when it returns no error.
func (p *places) enter(ctx context.Context, name string, w width) (leave func(), slow bool, err error) {
	p.mu.Lock()
	at := p.all[name]
	if at == nil {
		at = &place{}
		p.all[name] = at
	}
	mine := waiter{make(chan struct{}), w}
	at.waiting = append(at.waiting, mine)
	at.admit()
	p.mu.Unlock()
	select {
	case <-mine.admitted:
	case <-ctx.Done():
		p.withdraw(at, mine)
		return nil, false, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inside(at, w), at.slow > 0, nil
}

// withdraw takes a waiter out, or gives back the place that it was admitted to meanwhile.
func (p *places) withdraw(at *place, mine waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(at.waiting, func(w waiter) bool { return w.admitted == mine.admitted })
	if i >= 0 {
		at.waiting = slices.Delete(at.waiting, i, i+1)
		return
	}
	at.in--
	at.admit()
}

// admit lets those in who may go; the lock is held.
func (at *place) admit() {
	for len(at.waiting) > 0 {
		next := at.waiting[0]
		limit := next.width.usual
		if at.slow > 0 {
			limit = next.width.beside
		}
		if at.in >= limit || at.slow >= hungMax {
			return
		}
		close(next.admitted)
		at.waiting = at.waiting[1:]
		at.in++
	}
}

// inside follows a call that was let in and returns how it leaves; the lock is held.
func (p *places) inside(at *place, w width) (leave func()) {
	slow, left := false, false
	timer := time.AfterFunc(w.slowAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !left {
			slow = true
			at.in, at.slow = at.in-1, at.slow+1
			at.admit()
		}
	})
	return func() {
		timer.Stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		left = true
		if slow {
			at.slow--
		} else {
			at.in--
		}
		at.admit()
	}
}
