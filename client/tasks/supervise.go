package tasks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// superviseTask stays with a running attempt until it has ended, or until ctx ends.
func (t *task) superviseTask(ctx context.Context, a *attempt) outcome {
	d, id := a.driver, a.id
	watching, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	exits := make(chan *driver.Exit, 1)
	helpers.Go(func() {
		x, err := d.Wait(watching, id)
		if err != nil {
			if watching.Err() != nil {
				return
			}
			x = &driver.Exit{Code: -1, Err: err.Error()}
		}
		exits <- x
	})
	a.attend(watching, &helpers)
	select {
	case x := <-exits:
		return outcome{exit: x}
	case r := <-t.restarts:
		t.emit(r.event())
		x, ok := t.stop(ctx, d, id, exits)
		return outcome{exit: x, asked: &r, stopRequested: t.isStopRequested(), left: !ok}
	case <-t.stopRequested:
		if p := a.plugin; p != nil {
			p.Quiesce(ctx, t.emitPluginEvent)
		}
		x, ok := t.kill(ctx, d, id, exits)
		return outcome{exit: x, stopRequested: true, left: !ok}
	case <-ctx.Done():
		return outcome{left: true}
	}
}

// askOnce asks for a restart unless one is asked for already.
func (t *task) askOnce(a restartRequest) {
	select {
	case t.restarts <- a:
	default:
	}
}

// kill ends the attempt for good: shutdown delay, signal, timeout, force.
func (t *task) kill(ctx context.Context, d driver.Driver, id string, exits <-chan *driver.Exit) (*driver.Exit, bool) {
	t.mu.Lock()
	because, spec := t.why, t.spec
	t.mu.Unlock()
	if spec.ShutdownDelay > 0 {
		t.emit(message(eventShutdownDelay, fmt.Sprintf("Waiting for shutdown_delay of %s before killing the task.", spec.ShutdownDelay)))
		if !pause(ctx, spec.ShutdownDelay, t.g.skipDelay) {
			return nil, false
		}
		select {
		case <-t.g.skipDelay:
			t.emit(message(eventSkipDelay, "Skipping shutdown_delay"))
		default:
		}
	}
	t.emit(killing(because, t.killTimeout(t.present()))...)
	return t.stop(ctx, d, id, exits)
}

// stop ends the attempt and returns its exit; it reports false when ctx ended first.
func (t *task) stop(ctx context.Context, d driver.Driver, id string, exits <-chan *driver.Exit) (*driver.Exit, bool) {
	spec := t.present()
	defer t.watchStuck(ctx, d, id, t.killTimeout(spec)+stuckAfter)()
	signal := spec.KillSignal
	for {
		err := d.Stop(ctx, id, signal, t.killTimeout(spec))
		if err == nil || errors.Is(err, fault.NotFound) {
			break
		}
		if ctx.Err() != nil {
			return nil, false
		}
		if errors.Is(err, fault.Invalid) {
			signal = "" // whatever the driver has against it, the task must end
		}
		t.g.conf.Log.Warn("stop task", "task", t.name, "retry_in", retryPause, "error", err)
		if !pause(ctx, retryPause, nil) {
			return nil, false
		}
	}
	select {
	case x := <-exits:
		return x, true
	case <-ctx.Done():
		return nil, false
	}
}

// destroyMax bounds the removal of what a driver keeps of an attempt: volumes are unmounted after it.
const destroyMax = time.Minute

// destroyAttempt removes what the driver keeps of an attempt.
func (t *task) destroyAttempt(ctx context.Context, d driver.Driver, id string) {
	ctx, cancel := context.WithTimeout(ctx, destroyMax)
	defer cancel()
	if err := d.Destroy(ctx, id); err != nil && !errors.Is(err, fault.NotFound) {
		t.g.conf.Log.Warn("clean up after task", "task", t.name, "error", err)
	}
}
