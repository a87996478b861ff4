package tasks

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// longStop is how long a stop may wait without a bound before that is reported.
const longStop = time.Minute

// reportDelay reports that a stop waits for a long shutdown delay of the group.
func (g *Group) reportDelay(delay time.Duration) {
	select {
	case <-g.skipDelay:
		return
	default:
	}
	if delay < longStop {
		return
	}
	for _, t := range g.tasks {
		if t.active() && t.row().hook != api.TaskLifecycleHookPoststop {
			t.emit(message(eventSlow, fmt.Sprintf("The stop waits for the shutdown_delay of its group, %s: nomad alloc stop -no-shutdown-delay %s skips it", delay, g.present().ID)))
		}
	}
}

// reportPoststop reports, once for each, the poststop tasks that the end of a stopped allocation waits for. They are not
// killed: their work, such as an unlock or a copy, may take long.
func (g *Group) reportPoststop(ctx context.Context) {
	notified := map[string]bool{}
	for pause(ctx, longStop, nil) {
		for _, t := range g.tasks {
			_, _, err := t.alive()
			if s := t.state(); err != nil || notified[t.name] || t.row().hook != api.TaskLifecycleHookPoststop || time.Since(s.StartedAt) < longStop {
				continue
			}
			notified[t.name] = true
			t.emit(message(eventSlow, fmt.Sprintf("The allocation is stopped and ends when this poststop task does, which nothing bounds: nomad alloc signal -s SIGKILL %s %s ends it", g.present().ID, t.name)))
		}
	}
}
