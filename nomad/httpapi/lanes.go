package httpapi

import (
	"context"
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
)

// bodiesMax is how many bodies above trustedBytes one client address may have in memory at once; others of it wait.
const bodiesMax = 4

// lanes lets each client have a few large bodies under way, so that the memory of all is no single one's.
type lanes struct {
	mu sync.Mutex
	by map[string]*lane
}

type lane struct {
	places chan struct{}
	users  int
}

// enter waits for a place, until leave is called.
func (l *lanes) enter(ctx context.Context, client string) (leave func(), err error) {
	at := l.of(client)
	select {
	case at.places <- struct{}{}:
		return func() { <-at.places; l.drop(client, at) }, nil
	case <-ctx.Done():
		l.drop(client, at)
		return nil, fault.New(fault.Exhausted, "%d large requests of this address are under way: %w", bodiesMax, ctx.Err())
	}
}

func (l *lanes) of(client string) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.by[client]
	if at == nil {
		at = &lane{places: make(chan struct{}, bodiesMax)}
		l.by[client] = at
	}
	at.users++
	return at
}

func (l *lanes) drop(client string, at *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.users--; at.users == 0 {
		delete(l.by, client)
	}
}
