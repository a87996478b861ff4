package reconciler

import (
	"context"
	"slices"
	"sync"
	"time"
)

// places bound the calls in flight by name. A call that lasts longer than slowAfter of its width releases its place
// and is counted separately, so a hung call blocks no other. A name stays when it was used once: there are a few per
// plugin and node.
type places struct {
	mu  sync.Mutex
	all map[string]*place
}

// width is how many calls of a name may be in flight.
type width struct {
	// usual bounds the calls that are not slow yet; beside bounds them while other calls of the name are slow.
	usual, beside int
	// slowAfter is how long a call counts.
	slowAfter time.Duration
}

// turns is how many calls of others go before one that tries again.
const turns = 3

// hungMax bounds the slow calls of one name: beyond it others of the name wait for one of them to end.
const hungMax = 64

// place is where the calls of a name are. Those that try again stand in a line of their own, behind the others.
type place struct {
	first, again line
	slow         int
	// passed counts those that went before one that waits to try again.
	passed int
}

// line is one of the two lines of a place: who is in and not slow, and who waits.
type line struct {
	in      int
	waiting []*visit
}

// visit is one call on its way through a place.
type visit struct {
	at       *place
	line     *line
	width    width
	admitted chan struct{}
}

func newPlaces() *places { return &places{all: map[string]*place{}} }

// enter waits for a place, first come first served among those that try again and among the others. It reports whether
// others of the name are slow; leave must be called when it returns no error.
func (p *places) enter(ctx context.Context, name string, w width, again bool) (leave func(), slow bool, err error) {
	p.mu.Lock()
	at := p.all[name]
	if at == nil {
		at = &place{}
		p.all[name] = at
	}
	mine := &visit{at: at, line: &at.first, width: w, admitted: make(chan struct{})}
	if again {
		mine.line = &at.again
	}
	mine.line.waiting = append(mine.line.waiting, mine)
	at.admit()
	p.mu.Unlock()
	select {
	case <-mine.admitted:
	case <-ctx.Done():
		p.withdraw(mine)
		return nil, false, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inside(mine), at.slow > 0, nil
}

// withdraw takes a waiter out, or gives back the place that it was admitted to meanwhile.
func (p *places) withdraw(mine *visit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(mine.line.waiting, mine); i >= 0 {
		mine.line.waiting = slices.Delete(mine.line.waiting, i, i+1)
	} else {
		mine.line.in--
	}
	mine.at.admit()
}

// admit lets those in who may go; the lock is held.
func (at *place) admit() {
	for next := at.next(); next != nil; next = at.next() {
		switch {
		case next.line == &at.again:
			at.passed = 0
		case len(at.again.waiting) > 0:
			at.passed++
		}
		next.line.waiting = next.line.waiting[1:]
		next.line.in++
		close(next.admitted)
	}
}

// next is who may go. While others wait, those that try again have half of the places at most, and each of them its
// turn after a few of the others.
func (at *place) next() *visit {
	turn := &at.first
	if len(at.again.waiting) > 0 {
		limit := at.limit(at.again.waiting[0])
		if len(at.first.waiting) == 0 || at.passed >= turns && at.again.in < max(1, limit/2) {
			turn = &at.again
		}
	}
	if len(turn.waiting) == 0 || at.slow >= hungMax || at.first.in+at.again.in >= at.limit(turn.waiting[0]) {
		return nil
	}
	return turn.waiting[0]
}

func (at *place) limit(of *visit) int {
	if at.slow > 0 {
		return of.width.beside
	}
	return of.width.usual
}

// inside follows a call that was let in and returns how it leaves; the lock is held.
func (p *places) inside(mine *visit) (leave func()) {
	slow, left := false, false
	timer := time.AfterFunc(mine.width.slowAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !left {
			slow = true
			mine.line.in--
			mine.at.slow++
			mine.at.admit()
		}
	})
	return func() {
		timer.Stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		left = true
		if slow {
			mine.at.slow--
		} else {
			mine.line.in--
		}
		mine.at.admit()
	}
}
