package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/internal/tracing"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// seek takes up an attempt that an earlier agent process began and had no time to record. What it did not find once, this
// process begins itself. It reports false when ctx ended first.
func (t *task) seek(ctx context.Context) bool {
	if number, _ := t.upcoming(); number == t.notFound {
		return true
	}
	return t.find(ctx)
}

func (t *task) find(ctx context.Context) bool {
	d, err := t.g.conf.Driver(t.present().Driver)
	f, ok := d.(driver.Finder)
	if err != nil || !ok || t.held() {
		return true
	}
	number, id := t.upcoming()
	for notified := false; ; notified = true {
		h, err := f.Find(ctx, id)
		switch {
		case err == nil:
			_ = t.begun(finally, d, h, number)
			return true
		case errors.Is(err, fault.NotFound):
			t.notFound = number
			return true
		}
		if !notified && ctx.Err() == nil {
			t.emit(message(eventSlow, "The driver cannot find out whether the task runs already: "+err.Error()))
		}
		t.g.conf.Log.Warn("look for task", "task", t.name, "retry_in", retryPause, "error", err)
		if !pause(ctx, retryPause, nil) {
			return false
		}
	}
}

// upcoming is the next attempt and the driver's id of it.
func (t *task) upcoming() (number uint64, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	number = t.rec.Attempt + 1
	return number, Attempt(t.g.conf.Alloc.ID, t.name, number)
}

// Attempt is the driver's id of one attempt of a task; the first has number 1.
func Attempt(allocID, task string, number uint64) string {
	return allocID + "/" + task + "/" + strconv.FormatUint(number, 10)
}

// begin brings an attempt to life: an old one by its handle, else a new one. An outcome that is not nil
// ends the attempt.
func (t *task) begin(ctx context.Context, a *attempt) *outcome {
	if !t.seek(ctx) {
		return &outcome{left: true}
	}
	if t.held() {
		err := t.recover(ctx, a)
		switch {
		case err == nil:
			a.resume(ctx, t.g.present())
			return nil
		case ctx.Err() != nil:
			return &outcome{left: true}
		}
		x := &driver.Exit{Code: -1, Err: "task was lost while the agent was away: " + err.Error()}
		_ = t.change(lazily, func(r *store.TaskRecord, _ *api.TaskState) { r.Handle = nil }, event(eventRestoreFailed, x.Err), terminated(x))
		return &outcome{exit: x, stopRequested: t.isStopRequested()}
	}
	if n, _ := t.upcoming(); n > 1 { // a trace ends with the first start
		ctx = tracing.Apart(ctx)
	}
	ctx, span := tracing.Start(ctx, "task ", t.name)
	out := t.start(ctx, a)
	if out == nil {
		span.End(nil)
	} else {
		span.End(out.err)
	}
	return out
}

func (t *task) isStopRequested() bool {
	select {
	case <-t.stopRequested:
		return true
	default:
		return false
	}
}

// recover takes up the attempt of an earlier agent process. It retries while the driver is unavailable.
func (t *task) recover(ctx context.Context, a *attempt) error {
	t.mu.Lock()
	raw := t.rec.Handle
	t.mu.Unlock()
	var h driver.Handle
	if err := json.Unmarshal(raw, &h); err != nil {
		return fmt.Errorf("decode handle: %w", err)
	}
	if a.plugin != nil {
		if _, _, err := a.plugin.Prepare(); err != nil {
			t.g.conf.Log.Warn("prepare running plugin", "task", t.name, "error", err)
		}
	}
	for {
		err := a.driver.Recover(ctx, &h)
		if err == nil || !errors.Is(err, fault.Unavailable) {
			a.id = h.TaskID
			return err
		}
		t.g.conf.Log.Warn("take up task again", "task", t.name, "retry_in", retryPause, "error", err)
		if !pause(ctx, retryPause, nil) {
			return ctx.Err()
		}
	}
}

// start starts a new attempt. A start that takes long is cancelled when the task has to end.
func (t *task) start(ctx context.Context, a *attempt) *outcome {
	starting, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	d := a.driver
	number, id := t.upcoming()
	a.id = id
	watch.Go(func() { t.watchStart(starting, cancel, d, id) })
	select {
	case <-t.restarts: // it is about to start anyway
	default:
	}
	if number == 1 {
		_ = t.change(lazily, nil, message(api.EventSetup, "Building Task Directory"))
	}
	err := a.up(starting, t.g.present())
	for notified := false; dirs.Unwritable(err) && !t.g.conf.Dirs.SecretsFull(t.name) && !t.g.conf.Dirs.Full(); notified = true {
		if !notified {
			t.emit(message(eventSlow, "The disk of the node is waited for: "+a.cred.hide(err).Error()))
		}
		if !pause(starting, retryPause, nil) {
			return &outcome{left: ctx.Err() != nil, stopRequested: t.isStopRequested()}
		}
		err = a.up(starting, t.g.present())
	}
	if err == nil {
		err = subPaths(starting, a.job)
	}
	if err != nil && starting.Err() != nil { // it waited
		return &outcome{left: ctx.Err() != nil, stopRequested: t.isStopRequested()}
	}
	if err = a.cred.hide(err); err != nil {
		t.emit(failure(err))
		return &outcome{err: err}
	}
	unmap, err := mapOwners(starting, a.job)
	defer unmap()
	if err != nil {
		t.emit(failure(err))
		return &outcome{err: err}
	}
	began, span := tracing.Start(starting, "driver start ", a.spec.Driver)
	h, err := d.Start(began, a.job)
	err = a.cred.hide(err)
	span.End(err)
	if err == nil {
		if err = t.mounted(a.spec); err != nil { // it was unmounted during the start: the task may have the directory below it
			t.destroyAttempt(ctx, d, id)
		}
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return &outcome{left: true}
	case t.isStopRequested():
		if !errors.Is(err, context.Canceled) { // it has not ended with its context
			t.emit(message(eventStuck, err.Error()))
		}
		return &outcome{stopRequested: true}
	case errors.Is(err, fault.Conflict) && t.find(ctx) && t.held(): // it has been begun already
		return t.begin(ctx, a)
	default:
		t.emit(driverFailure(err))
		return &outcome{err: err}
	}
	if err := t.begun(firmly, d, h, number); err != nil {
		t.emit(driverFailure(err))
		t.destroyAttempt(ctx, d, id)
		return &outcome{err: fault.Wrap(fault.Unavailable, err)}
	}
	return nil
}

// watchStart cancels a start when the task has to end, and reports, once, what holds up a start that takes long.
func (t *task) watchStart(ctx context.Context, giveUp func(), d driver.Driver, id string) {
	timer := time.NewTimer(stuckAfter)
	defer timer.Stop()
	for {
		select {
		case <-t.stopRequested:
			giveUp()
			return
		case <-ctx.Done():
			return
		case <-timer.C:
			if !t.reportSlow(d, id) {
				timer.Reset(retryPause)
			}
		}
	}
}

// begun records that the attempt runs; the handle is durable when it returns well.
func (t *task) begun(when pace, d driver.Driver, h *driver.Handle, number uint64) error {
	raw, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode handle: %w", err)
	}
	return t.change(when, func(r *store.TaskRecord, s *api.TaskState) {
		r.Handle, r.Attempt = raw, number
		t.driver, t.id = d, h.TaskID
		s.State, s.StartedAt, s.FinishedAt = api.TaskStateRunning, time.Now().UTC(), time.Time{}
		if when == finally && !h.StartedAt.IsZero() {
			s.StartedAt = h.StartedAt.UTC()
		}
	}, started())
}
