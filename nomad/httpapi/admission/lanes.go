package admission

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/keyed"
)

// How many bodies may be in memory at once, of one client address and of all; others wait.
const (
	// longMax and longAll are for those above [Long].
	longMax, longAll = 4, 32
	// shortMax and shortAll are for all others.
	shortMax, shortAll = 256, 4096
)

// Long is how many bytes a body has at most that is short.
const Long = 64 << 10

// slowAfter is how long a body may take while others wait for its place.
const slowAfter = 5 * time.Second

// Bodies lets the bodies of requests in, so that memory holds not too many.
type Bodies struct{ long, short *lanes }

// NewBodies lets in what the constants of this package say.
func NewBodies() *Bodies {
	return &Bodies{long: newLanes(longMax, longAll), short: newLanes(shortMax, shortAll)}
}

// Enter waits for a place for the body of a request that [Paced] let pass; read is called when the body is there, leave
// when the request is over. Its error is of the class [fault.Exhausted].
func (b *Bodies) Enter(ctx context.Context, client string, r *http.Request) (read, leave func(), err error) {
	l := b.short
	if r.ContentLength < 0 || r.ContentLength > Long {
		l = b.long
	}
	if leave, err = l.enter(ctx, client); err != nil {
		return nil, nil, err
	}
	if body, ok := r.Body.(*pacedBody); ok {
		body.begin()
		return l.reads(body.end), leave, nil
	}
	return func() {}, leave, nil
}

// lanes lets each client have a few bodies under way, and all together not too many. Of those that wait, one of each client
// is taken in turn, and who sends slowly gives way to them.
type lanes struct {
	max    int
	places *keyed.Map[chan struct{}]
	all    *wire.Turns
	mu     sync.Mutex
	// coming are the bodies that are being read, the oldest first.
	coming []*coming
}

// coming is a body that is being read since then; cut ends that.
type coming struct {
	since time.Time
	cut   func()
}

func newLanes(most, all int) *lanes {
	return &lanes{
		max:    most,
		places: keyed.New(func() chan struct{} { return make(chan struct{}, most) }),
		all:    wire.NewTurns(all),
	}
}

// enter waits for a place, until leave is called.
func (l *lanes) enter(ctx context.Context, client string) (leave func(), err error) {
	places := l.places.Enter(client)
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		l.places.Leave(client)
		return nil, fault.New(fault.Exhausted, "%d requests like this one of this address are under way: %w", l.max, ctx.Err())
	}
	if err := l.turn(ctx, client); err != nil {
		<-places
		l.places.Leave(client)
		return nil, fault.New(fault.Exhausted, "too many requests like this one of all clients are under way: %w", err)
	}
	return func() { l.all.Give(); <-places; l.places.Leave(client) }, nil
}

// turn waits for one of the places of all, and has slow ones cut meanwhile.
func (l *lanes) turn(ctx context.Context, client string) error {
	if l.all.Try() {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go l.hurry(ctx)
	return l.all.Take(ctx, client)
}

// hurry cuts the bodies that have been coming for a long time, the oldest first, one a second.
func (l *lanes) hurry(ctx context.Context) {
	for {
		l.mu.Lock()
		if len(l.coming) > 0 && time.Since(l.coming[0].since) >= slowAfter {
			l.coming[0].cut()
			l.coming = l.coming[1:]
		}
		l.mu.Unlock()
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return
		}
	}
}

// reads tells that a body is being read, until done is called.
func (l *lanes) reads(cut func()) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &coming{time.Now(), cut}
	l.coming = append(l.coming, c)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if i := slices.Index(l.coming, c); i >= 0 {
			l.coming = slices.Delete(l.coming, i, i+1)
		}
	}
}
