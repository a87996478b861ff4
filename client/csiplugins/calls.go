package csiplugins

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/keyed"
)

const (
	// defaultCalls is the default limit of concurrent volume calls to one plugin. Calls for different nodes are counted
	// separately.
	defaultCalls = 8
	// placeMax is for how long a call keeps its place: a call that hangs is followed without one.
	placeMax = 10 * time.Second
	// suspectAfter is the duration of a call after which the plugin's health is probed; suspectEvery is the interval of
	// further probes.
	suspectAfter = time.Second
	suspectEvery = 5 * time.Second
	// quickProbe bounds such a look.
	quickProbe = 2500 * time.Millisecond
)

// calls bounds how many calls of volumes are in flight to each plugin. Probes are not counted.
type calls struct {
	most int
	// places are those of one plugin and node.
	places *keyed.Map[chan struct{}]
}

func newCalls(most int) calls {
	return calls{most, keyed.New(func() chan struct{} { return make(chan struct{}, most) })}
}

// take waits for a free slot of the plugin for calls that concern the node. The slot is released when release is
// called or the call has lasted for placeMax.
func (c *calls) take(ctx context.Context, pluginID, node string) (release func(), err error) {
	key := pluginID + "\x00" + node
	places := c.places.Enter(key)
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		c.places.Leave(key)
		return nil, fmt.Errorf("wait for one of %d calls to plugin %s: %w", c.most, pluginID, ctx.Err())
	}
	give := sync.OnceFunc(func() {
		<-places
		c.places.Leave(key)
	})
	timer := time.AfterFunc(placeMax, give)
	return func() { timer.Stop(); give() }, nil
}

// Turn waits until no other call of the volume is in flight, and then for a place at its plugin: who waits
// for a volume keeps no place. volume is a [VolumeKey].
func (s *Service) Turn(ctx context.Context, pluginID, volume string) (release func(), err error) {
	return s.turn(ctx, pluginID, "", volume)
}

// turn is a turn for a call that concerns a node; an empty volume needs only the place.
func (s *Service) turn(ctx context.Context, pluginID, node, volume string) (release func(), err error) {
	if volume == "" {
		return s.calls.take(ctx, pluginID, node)
	}
	unlock, err := s.Lock(ctx, volume)
	if err != nil {
		return nil, err
	}
	give, err := s.calls.take(ctx, pluginID, node)
	if err != nil {
		unlock()
		return nil, err
	}
	return func() { give(); unlock() }, nil
}

// Lock waits until no other call of the volume is in flight, without a place at its plugin.
func (s *Service) Lock(ctx context.Context, volume string) (unlock func(), err error) {
	return s.locks.take(ctx, volume)
}

// Called makes a call to an instance. It probes the instance during a long call, so that a hung instance becomes
// unhealthy long before the call times out.
func (s *Service) Called(p *Plugin, call func() error) error {
	over := make(chan struct{})
	defer close(over)
	timer := time.AfterFunc(suspectAfter, func() { s.suspect(p, over) })
	defer timer.Stop()
	return call()
}

// suspect probes an instance at short intervals until the call ends.
func (s *Service) suspect(p *Plugin, over <-chan struct{}) {
	tick := time.NewTicker(suspectEvery)
	defer tick.Stop()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), quickProbe)
		ready, err := p.client.Probe(ctx)
		cancel()
		switch {
		case err != nil:
			s.registry.note(p, finding{err: err})
			p.Recheck()
		case !ready:
			s.registry.note(p, finding{starting: true})
			p.Recheck()
		}
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}
