package volumes

import (
	"context"
	"fmt"
	"sync"
)

// pluginCalls is how many calls of volumes one plugin gets at once unless the configuration says otherwise.
const pluginCalls = 8

// calls bounds how many calls of volumes are in flight to each plugin. Probes are not counted.
type calls struct {
	most   int
	mu     sync.Mutex
	places map[string]chan struct{}
}

// take waits for one of the plugin's places.
func (c *calls) take(ctx context.Context, pluginID string) (release func(), err error) {
	c.mu.Lock()
	if c.places == nil {
		c.places = map[string]chan struct{}{}
	}
	places := c.places[pluginID]
	if places == nil {
		places = make(chan struct{}, c.most)
		c.places[pluginID] = places
	}
	c.mu.Unlock()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for one of %d calls to plugin %s: %w", c.most, pluginID, ctx.Err())
	}
}

// turn waits until no other call of the volume is in flight, and then for a place at its plugin: who waits
// for a volume keeps no place. An empty volume needs only the place.
func (s *Service) turn(ctx context.Context, pluginID, volume string) (release func(), err error) {
	if volume == "" {
		return s.calls.take(ctx, pluginID)
	}
	leave, err := s.locks.take(ctx, volume)
	if err != nil {
		return nil, err
	}
	give, err := s.calls.take(ctx, pluginID)
	if err != nil {
		leave()
		return nil, err
	}
	return func() { give(); leave() }, nil
}
