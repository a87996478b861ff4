package httpapi

import (
	"context"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/keyed"
)

// bodiesMax is how many bodies above trustedBytes one client address may have in memory at once; others of it wait.
const bodiesMax = 4

// lanes lets each client have a few large bodies under way, so that the memory of all is no single one's.
type lanes struct{ places *keyed.Map[chan struct{}] }

func newLanes() lanes {
	return lanes{keyed.New(func() chan struct{} { return make(chan struct{}, bodiesMax) })}
}

// enter waits for a place, until leave is called.
func (l *lanes) enter(ctx context.Context, client string) (leave func(), err error) {
	places := l.places.Enter(client)
	select {
	case places <- struct{}{}:
		return func() { <-places; l.places.Leave(client) }, nil
	case <-ctx.Done():
		l.places.Leave(client)
		return nil, fault.New(fault.Exhausted, "%d large requests of this address are under way: %w", bodiesMax, ctx.Err())
	}
}
