package allocs

import (
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// moment is a time that the host's clock, which people set back and forth, does not change.
type moment time.Duration

// clock turns the times that tasks remember into moments. How long ago something was is asked of the host's clock once,
// and counts from then on.
type clock struct {
	// wall is the host's clock; up is monotonic.
	wall func() time.Time
	up   func() time.Duration

	mu   sync.Mutex
	seen map[int64]moment
}

// epoch is before all moments of this process, so that those of the process before it are not negative.
const epoch = 100 * 365 * 24 * time.Hour

func newClock() *clock {
	begun := time.Now()
	return &clock{wall: time.Now, up: func() time.Duration { return time.Since(begun) }, seen: map[int64]moment{}}
}

func (c *clock) now() moment { return moment(epoch + c.up()) }

// at returns the moment of a time; a time in the future of the host's clock is now.
func (c *clock) at(t time.Time) moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, known := c.seen[t.UnixNano()]
	if !known {
		m = c.now() - moment(min(max(c.wall().Sub(t), 0), epoch))
		c.seen[t.UnixNano()] = m
	}
	return m
}

// began is when the allocation came to this node, as its tasks remember it, or now.
func (a *Alloc) began() moment {
	first := a.clock.now()
	for _, s := range a.tasks.States() {
		if len(s.Events) > 0 && s.Events[0] != nil && s.Events[0].Type == api.EventReceived {
			first = min(first, a.clock.at(time.Unix(0, s.Events[0].Time)))
		}
	}
	return first
}
