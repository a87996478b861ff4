package link

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/retry"
)

// offer is one reversed connection that is kept open.
type offer struct {
	hello wire.Hello
	stop  context.CancelFunc
}

// Run lets the servers call down, and leaves servers that fell silent, until ctx ends.
func (l *Link) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { l.watch(ctx) })
	offers := map[string]offer{}
	defer func() {
		for _, o := range offers {
			o.stop()
		}
	}()
	for {
		l.mu.Lock()
		hello, servers := l.hello, slices.Clone(l.current())
		l.mu.Unlock()
		for address, o := range offers {
			if o.hello != hello || !slices.Contains(servers, address) {
				o.stop()
				delete(offers, address)
			}
		}
		for _, address := range servers {
			if _, open := offers[address]; open || hello.NodeID == "" {
				continue
			}
			kept, stop := context.WithCancel(ctx)
			offers[address] = offer{hello, stop}
			wg.Go(func() { l.keep(kept, address, hello) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.changed:
		}
	}
}

// keep offers a connection to one server again and again.
func (l *Link) keep(ctx context.Context, address string, hello wire.Hello) {
	l.mu.Lock()
	handlers := slices.Clone(l.handlers)
	l.mu.Unlock()
	pauses, twin := retry.Between(pauseMin, pauseMax), retry.Between(pauseTwin, pauseTwin)
	for ctx.Err() == nil {
		err := wire.ServeReverse(ctx, address, l.dialer, hello, handlers, l.log, func() {
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
