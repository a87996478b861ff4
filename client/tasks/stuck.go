package tasks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver"
)

// stuckAfter is how long the kernel has to end a killed process before that is reported.
const stuckAfter = 3 * time.Second

// awaitRemains waits until no process is left of an attempt that has exited: one that the kernel cannot end may still
// write to the volumes, which must not be given to another user. It reports false when ctx ended first.
func (t *task) awaitRemains(ctx context.Context, d driver.Driver, id string) bool {
	r, ok := d.(driver.Remainer)
	if !ok {
		return true
	}
	begun, notified := time.Now(), false
	for {
		left := r.Remains(id)
		if len(left) == 0 {
			return true
		}
		if !notified && time.Since(begun) >= stuckAfter {
			t.reportStuck(left)
			notified = true
		}
		if !pause(ctx, retryPause, nil) {
			return false
		}
	}
}

// watchStuck reports processes that are stuck so long after an attempt was asked to end, until stop is called.
func (t *task) watchStuck(ctx context.Context, d driver.Driver, id string, after time.Duration) (stop func()) {
	r, ok := d.(driver.Remainer)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for pause(ctx, after, nil) {
			left := slices.DeleteFunc(r.Remains(id), func(p driver.Remain) bool { return !p.Stuck() })
			if len(left) > 0 {
				t.reportStuck(left)
				return
			}
			after = retryPause
		}
	})
	return func() { cancel(); watch.Wait() }
}

func (t *task) reportStuck(left []driver.Remain) {
	why := driver.Explain(left)
	t.g.conf.Log.Warn("task cannot be ended", "task", t.name, "reason", why)
	t.emit(message(eventStuck, why))
	if t.g.conf.Stuck != nil {
		t.g.conf.Stuck(fmt.Sprintf("task %s: %s", t.name, why))
	}
}

// reportSlow reports the processes that a start waits for; it returns false when there are none.
func (t *task) reportSlow(d driver.Driver, id string) bool {
	r, ok := d.(driver.Remainer)
	if !ok {
		return true
	}
	var waits []string
	for _, p := range r.Remains(id) {
		waits = append(waits, p.Wait())
	}
	if len(waits) == 0 {
		return false
	}
	t.emit(message(eventSlow, "The start takes long: "+strings.Join(waits, ", ")))
	return true
}
