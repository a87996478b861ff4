package allocs

import (
	"context"
	"fmt"
	"time"
)

// eventTimeout is the event of an allocation that was ended because it reached its maximum run time.
const eventTimeout = "Max Run Duration"

// attendRuntime ends the allocation when the max_run_duration of its group has passed, counted from when it came to
// this node. The work counts as done: such allocations are not placed again.
func (a *Alloc) attendRuntime(ctx context.Context) {
	p := a.Present()
	g := p.Group()
	if g == nil || g.MaxRunDuration <= 0 {
		return
	}
	t := time.NewTimer(g.MaxRunDuration - time.Duration(a.clock.now()-a.began()))
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.stopping:
		return
	case <-a.ended:
		return
	case <-ctx.Done():
		return
	}
	a.tasks.Tell(a.taskNames(), eventTimeout, fmt.Sprintf("The allocation has run for its max_run_duration of %s", g.MaxRunDuration))
	a.Stop()
}

// RunTimeLeft is what is left of the max_run_duration of its group; 0 when there is none or it has passed.
func (a *Alloc) RunTimeLeft() time.Duration {
	g := a.Present().Group()
	if g == nil || g.MaxRunDuration <= 0 {
		return 0
	}
	return max(0, g.MaxRunDuration-time.Duration(a.clock.now()-a.began()))
}

// taskNames are the names of all tasks of the allocation.
func (a *Alloc) taskNames() (names []string) {
	if g := a.Present().Group(); g != nil {
		for _, t := range g.Tasks {
			names = append(names, t.Name)
		}
	}
	return names
}
