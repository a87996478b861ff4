package tasks

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/jobspec/cron"
)

// clockPause bounds the wait for the next change of a window, in case the clock is set meanwhile.
const clockPause = 30 * time.Second

// plan is what a task with a schedule does now.
type plan struct {
	// state is that of [api.TaskState.Paused]; until is when it changes by itself, zero when never.
	state string
	until time.Time
}

func (p plan) paused() bool { return p.state == api.PausedBySchedule || p.state == api.PausedByUser }

// text is the text of the event with which the plan begins.
func (p plan) text() string {
	what := map[string]string{
		"": "Task runs as its schedule says", api.PausedBySchedule: "Task is paused by its schedule",
		api.PausedByUser: "User requested task to pause", api.RunByUser: "User requested task to run",
	}[p.state]
	if !p.until.IsZero() {
		what += " until " + p.until.Format(time.RFC3339)
	}
	return what
}

// schedule keeps a task with a schedule block to its windows while it runs; [task.waitSchedule] does so between attempts.
type schedule struct{ *task }

func (schedule) name() string { return "schedule" }

func (schedule) up(context.Context, *attempt) error { return nil }

// attend also follows a task without schedule, because an update in place may add one.
func (s schedule) attend(ctx context.Context, _ *attempt) {
	for {
		if s.present().Schedule == nil {
			select {
			case <-s.rescheduled:
				continue
			case <-ctx.Done():
				return
			}
		}
		p, err := s.planned(time.Now())
		if err == nil && p.paused() {
			s.askOnce(restartRequest{reason: p.text(), pause: true})
			return
		}
		if !s.waitChange(ctx, p.until) {
			return
		}
	}
}

// waitChange waits until the time, until the plan may have changed otherwise, or for [clockPause]; it reports false when ctx
// ended.
func (t *task) waitChange(ctx context.Context, until time.Time) bool {
	timer := time.NewTimer(t.untilChange(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.rescheduled:
	case <-ctx.Done():
		return false
	}
	return true
}

func (t *task) untilChange(until time.Time) time.Duration {
	if until.IsZero() {
		return clockPause
	}
	return min(max(time.Until(until), 0), clockPause)
}

// planned returns what the task does at a time, by its schedule and by what a user wants.
func (t *task) planned(now time.Time) (plan, error) {
	t.mu.Lock()
	spec, wanted := t.spec, t.rec.Pause
	t.mu.Unlock()
	switch {
	case spec.Schedule == nil || spec.Schedule.Cron == nil:
		return plan{}, nil
	case wanted == api.SchedulePause:
		return plan{state: api.PausedByUser}, nil
	case wanted == api.ScheduleRun:
		return plan{state: api.RunByUser}, nil
	}
	w, err := cron.NewWindow(spec.Schedule.Cron)
	if err != nil {
		return plan{}, fault.New(fault.Invalid, "schedule: %w", err)
	}
	open, until := w.At(now)
	if open {
		return plan{until: until}, nil
	}
	return plan{state: api.PausedBySchedule, until: until}, nil
}

// waitSchedule waits, before an attempt, until the task may run; it reports false when it will not.
func (t *task) waitSchedule(ctx context.Context) bool {
	if t.present().Schedule == nil {
		return true
	}
	for {
		p, err := t.planned(time.Now())
		if err != nil {
			_ = t.finish(lazily, true, setupFailure(err))
			return false
		}
		t.showPlan(p)
		if !p.paused() {
			return ctx.Err() == nil
		}
		timer := time.NewTimer(t.untilChange(p.until))
		select {
		case <-timer.C:
		case <-t.rescheduled:
		case <-t.restarts: // it is paused
		case <-t.stopRequested:
			timer.Stop()
			_ = t.finish(lazily, false, killed())
			return false
		case <-ctx.Done():
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// showPlan records what the task does when that changes. A task that begins inside of a window needs no event.
func (t *task) showPlan(p plan) {
	t.mu.Lock()
	before := t.rec.State.Paused
	t.mu.Unlock()
	if before == p.state {
		return
	}
	kind := api.EventRunning
	if p.paused() {
		kind = api.EventPausing
	}
	_ = t.change(lazily, func(_ *store.TaskRecord, s *api.TaskState) { s.Paused = p.state }, message(kind, p.text()))
}

// reschedule makes the task look at its plan again.
func (t *task) reschedule() {
	select {
	case t.rescheduled <- struct{}{}:
	default:
	}
}

// isPaused reports whether the task is kept from running by its schedule or by a user.
func (t *task) isPaused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := plan{state: t.rec.State.Paused}
	return p.paused() && t.rec.State.State == api.TaskStatePending
}

// scheduled finds a task with a schedule.
func (g *Group) scheduled(name string) (*task, error) {
	for _, t := range g.tasks {
		switch {
		case t.name != name && (name != "" || len(g.tasks) > 1):
			continue
		case t.present().Schedule == nil:
			return nil, fault.New(fault.Invalid, "task %q has no schedule block: it cannot be paused", t.name)
		}
		return t, nil
	}
	if name == "" {
		return nil, fault.New(fault.Invalid, "the allocation has several tasks: name one")
	}
	return nil, fault.New(fault.NotFound, "unknown task name %q", name)
}

// Pause pauses or runs a task with a schedule, whatever that says, or gives it back to its schedule: state is pause, run or
// scheduled. What a user wants is durable when it returns well.
func (g *Group) Pause(name, state string) error {
	t, err := g.scheduled(name)
	if err != nil {
		return err
	}
	switch {
	case state != api.SchedulePause && state != api.ScheduleRun && state != api.ScheduleScheduled:
		return fault.New(fault.Invalid, "Not a valid task schedule state: expected pause, run or scheduled, got %.40q", state)
	case t.row().dead():
		return fault.New(fault.Conflict, "task %q has ended", t.name)
	case state == api.ScheduleScheduled:
		state = ""
	}
	err = t.change(firmly, func(r *store.TaskRecord, s *api.TaskState) {
		r.Pause = state
		switch {
		case state == api.ScheduleRun && s.State == api.TaskStateRunning:
			s.Paused = api.RunByUser
		case state == "" && s.State == api.TaskStateRunning:
			s.Paused = ""
		}
	})
	if err != nil {
		return fmt.Errorf("store what task %q is to do: %w", t.name, err)
	}
	t.reschedule()
	return nil
}

// PauseState returns run, or what [api.TaskState.Paused] holds for a task with a schedule.
func (g *Group) PauseState(name string) (string, error) {
	t, err := g.scheduled(name)
	if err != nil {
		return "", err
	}
	if s := t.state().Paused; s != "" {
		return s, nil
	}
	return api.ScheduleRun, nil
}
