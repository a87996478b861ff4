package volumes

import (
	"context"
	"sync"
)

// gates bound the calls in flight, by name. A gate stays when it was used once: there are a few per
// plugin and node.
type gates struct {
	mu  sync.Mutex
	all map[string]chan struct{}
}

func newGates() *gates { return &gates{all: map[string]chan struct{}{}} }

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
