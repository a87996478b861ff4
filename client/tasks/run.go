package tasks

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/jobspec/taskenv"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// retryPause is the pause before a driver call that must succeed is repeated.
const retryPause = time.Second

// outcome is how one attempt ended.
type outcome struct {
	// exit is nil when the attempt never ran.
	exit *driver.Exit
	// err is the reason why it never ran.
	err error
	// stopRequested is set when the task was asked to end, asked when a restart was requested.
	stopRequested bool
	asked         *restartRequest
	// left is set when the agent ends and the task keeps running.
	left bool
}

// nextAttempt is the decision whether the task gets another attempt, and after which delay.
type nextAttempt struct {
	again bool
	delay time.Duration
}

// run leads the task from its present state to its death, or until ctx ends.
func (t *task) run(ctx context.Context) {
	if t.row().dead() {
		return
	}
	if !t.seek(ctx) {
		return
	}
	if t.held() {
		t.open() // it runs already
	} else if !t.waitGate(ctx) {
		return
	}
	for {
		if !t.held() && !t.waitSchedule(ctx) {
			return
		}
		next, left := t.attempt(ctx)
		if left || !next.again || !t.waitDelay(ctx, next.delay) {
			return
		}
	}
}

// waitGate waits until the task may start; it reports false when it will not.
func (t *task) waitGate(ctx context.Context) bool {
	select {
	case <-t.gate:
		return true
	case <-t.stopRequested:
		_ = t.finish(lazily, false, killed())
	case <-ctx.Done():
	}
	return false
}

// held reports whether an attempt of an earlier agent process may still run.
func (t *task) held() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.rec.Handle) > 0
}

// concludeAttempt decides what follows an attempt and records it together with the attempt's end, so that an attempt that has
// ended is never treated as running. An error means that the record is not durable.
func (t *task) concludeAttempt(when pace, o outcome, events ...*api.TaskEvent) (nextAttempt, error) {
	if o.stopRequested {
		return nextAttempt{}, t.finish(when, false, append(events, killed())...)
	}
	over := func(r *store.TaskRecord, s *api.TaskState) {
		r.Handle = nil
		s.State, s.Restarts, s.LastRestart = api.TaskStatePending, s.Restarts+1, time.Now().UTC()
	}
	if o.asked != nil && o.asked.pause {
		return nextAttempt{again: true}, t.change(when, func(r *store.TaskRecord, s *api.TaskState) {
			r.Handle, s.State = nil, api.TaskStatePending
			if s.Paused = api.PausedBySchedule; r.Pause == api.SchedulePause {
				s.Paused = api.PausedByUser
			}
		}, events...)
	}
	if o.asked != nil && !o.asked.counted {
		return nextAttempt{again: true}, t.change(when, over, append(events, restarting(0, ""))...)
	}
	spec := t.present()
	policy := spec.RestartPolicy
	if tg := t.g.present().Group(); policy == nil && tg != nil {
		policy = tg.RestartPolicy
	}
	e := Ending{Success: o.exit != nil && o.exit.Successful() && o.asked == nil, Unrecoverable: unrecoverable(o)}
	t.mu.Lock()
	now := Tracker{Count: t.rec.Restarts, WindowStart: t.rec.WindowStart}
	t.mu.Unlock()
	then, d := now.Next(policy, e, t.again(spec), time.Now(), t.g.conf.Jitter)
	if d.Restart {
		return nextAttempt{true, d.Delay}, t.change(when, func(r *store.TaskRecord, s *api.TaskState) {
			over(r, s)
			r.Restarts, r.WindowStart = then.Count, then.WindowStart
		}, append(events, restarting(d.Delay, d.Reason))...)
	}
	if d.Reason != "" {
		events = append(events, notRestarting(d.Reason, d.Failed))
	}
	return nextAttempt{}, t.finish(when, d.Failed, events...)
}

// unrecoverable reports whether the task would only end the same way again.
func unrecoverable(o outcome) bool {
	if o.asked != nil && o.asked.fatal {
		return true
	}
	if o.exit == nil {
		return !driver.Recoverable(o.err)
	}
	return o.exit.LeaseEnded
}

// waitDelay waits before the next attempt; it reports false when there will be none.
func (t *task) waitDelay(ctx context.Context, delay time.Duration) bool {
	if delay <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.restarts:
		return true
	case <-t.stopRequested:
		_ = t.finish(lazily, false, killed())
		return false
	case <-ctx.Done():
		return false
	}
}

// attempt runs the task once, or takes up the attempt that already runs, and returns when it has ended and what follows
// is recorded. It reports left when the agent ends and the attempt keeps running.
func (t *task) attempt(ctx context.Context) (next nextAttempt, left bool) {
	spec := t.present()
	d, err := t.g.conf.Driver(spec.Driver)
	if err != nil {
		return t.concludeUnstarted(outcome{err: err}, driverFailure(err)), false
	}
	p, err := t.plugin(spec, d)
	if err != nil {
		return t.concludeUnstarted(outcome{err: err}, setupFailure(err)), false
	}
	a := &attempt{spec: spec, driver: d, plugin: p, steps: t.steps()}
	defer func() { a.down(left) }()
	if o := t.begin(ctx, a); o != nil {
		if o.left {
			return nextAttempt{}, true
		}
		return t.concludeUnstarted(*o), false
	}
	t.setHandle(d, a.id, a.env)
	defer t.setHandle(nil, "", nil)
	out := t.superviseTask(ctx, a)
	if out.left || !t.awaitRemains(ctx, d, a.id) {
		return nextAttempt{}, true
	}
	// The traces of an attempt are removed when its end is durable, and not before: otherwise it would count as lost,
	// and run again.
	if next, err = t.concludeAttempt(finally, out, terminated(out.exit)); err == nil {
		t.destroyAttempt(ctx, d, a.id)
	}
	return next, false
}

// concludeUnstarted records the end of an attempt that never ran.
func (t *task) concludeUnstarted(o outcome, events ...*api.TaskEvent) nextAttempt {
	next, _ := t.concludeAttempt(lazily, o, events...)
	return next
}

func (t *task) setHandle(d driver.Driver, id string, env *taskenv.Env) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.driver, t.id, t.env = d, id, env
}
