package link

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/internal/retry"
)

// Run lets the servers call down, and leaves servers that fell silent, until ctx ends.
func (l *Link) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { l.watch(ctx) })
	offers := map[string]context.CancelFunc{}
	defer func() {
		for _, stop := range offers {
			stop()
		}
	}()
	for {
		l.mu.Lock()
		named, servers := l.hello.NodeID != "", slices.Clone(l.current())
		l.mu.Unlock()
		for address, stop := range offers {
			if !slices.Contains(servers, address) {
				stop()
				delete(offers, address)
			}
		}
		for _, address := range servers {
			if offers[address] != nil || !named {
				continue
			}
			kept, stop := context.WithCancel(ctx)
			offers[address] = stop
			wg.Go(func() { l.keep(kept, address) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.changed:
		}
	}
}

// keep offers a connection to one server again and again, each time with the newest credential of the node. A connection
// that is open stays when the credential is renewed.
func (l *Link) keep(ctx context.Context, address string) {
	l.mu.Lock()
	handlers := slices.Clone(l.handlers)
	l.mu.Unlock()
	pauses, twin := retry.Between(pauseMin, pauseMax), retry.Between(pauseTwin, pauseTwin)
	for ctx.Err() == nil {
		l.mu.Lock()
		hello := l.hello
		l.mu.Unlock()
		err := transport.ServeReverse(ctx, address, l.dialer, hello, handlers, l.log, func() {
			pauses.Reset()
			l.log.Debug("server can call this node", "server", address)
		})
		if ctx.Err() != nil {
			return
		}
		pause := pauses.Next()
		switch {
		case errors.Is(err, fault.Denied):
			l.log.Warn("server refuses this node", "server", address, "error", err)
		case errors.Is(err, fault.Conflict):
			l.log.Error("server refuses this node", "server", address, "error", err)
			pause = twin.Next()
		default:
			l.log.Debug("server cannot call this node", "server", address, "error", err, "retry_in", pause)
		}
		retry.Sleep(ctx, pause)
	}
}
