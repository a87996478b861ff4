package tasks

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/jobspec/taskenv"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// killTimeoutDefault is used when a job sets none.
const killTimeoutDefault = 5 * time.Second

// task is one task of a group. Its goroutine, run, is the only writer of the record.
type task struct {
	g    *Group
	name string
	// gate is closed when the task may start, stopRequested when it must end.
	gate, stopRequested chan struct{}
	// restarts carries requests to restart a running task; the request is closed when it was taken up.
	restarts chan restartRequest
	// rescheduled is signalled when what a schedule or a user wants of the task may have changed.
	rescheduled chan struct{}
	// notFound is the attempt that was looked for and not found; only run uses it, or what ends the task instead.
	notFound uint64

	mu   sync.Mutex
	spec *api.Task
	rec  store.TaskRecord
	// shown is the state that others see: what must be durable is not shown before it is.
	shown  *api.TaskState
	opened bool
	ending bool
	why    stopCause
	// driver and id are those of the running attempt.
	driver driver.Driver
	id     string
	// env is the environment of the running attempt.
	env *taskenv.Env
	// kept are the contents of the templates of the attempt that has ended.
	kept map[string][]byte
	// socket is the API socket of the attempt; only run uses it.
	socket net.Listener
	// killedAtLease is the attempt that is being killed at the end of its lease.
	killedAtLease string
}

// restartRequest is a request to restart. Counted ones go through the restart policy like a failure; after a fatal one, which is
// counted, the task has failed; pause is that of a task whose next attempt waits for its schedule.
type restartRequest struct {
	reason                string
	counted, fatal, pause bool
	// kind is the type of its event; empty is that of a restart.
	kind string
}

func (r restartRequest) event() *api.TaskEvent {
	switch {
	case r.pause:
		return message(api.EventPausing, r.reason)
	case r.kind != "":
		return message(r.kind, r.reason)
	}
	return restartSignal(r.reason)
}

func newTask(g *Group, spec *api.Task, restored *store.TaskRecord) *task {
	t := &task{g: g, name: spec.Name, spec: spec, gate: make(chan struct{}), stopRequested: make(chan struct{}), restarts: make(chan restartRequest, 1), rescheduled: make(chan struct{}, 1)}
	if restored != nil {
		t.rec = *restored
	}
	if t.rec.State == nil {
		t.rec.State = &api.TaskState{State: api.TaskStatePending}
		t.append(received())
	}
	t.shown = t.rec.State
	return t
}

func (t *task) row() row {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.rec.State
	r := row{name: t.name, leader: t.spec.Leader, state: s.State, failed: s.Failed, started: !s.StartedAt.IsZero(), opened: t.opened, ending: t.ending, began: s.StartedAt, ended: s.FinishedAt}
	if l := t.spec.Lifecycle; l != nil {
		r.hook, r.sidecar = l.Hook, l.Sidecar
	}
	return r
}

func (t *task) state() *api.TaskState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shown
}

func (t *task) setSpec(spec *api.Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spec = spec
	t.reschedule()
}

func (t *task) present() *api.Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spec
}

// open lets the task start.
func (t *task) open() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.opened {
		t.opened = true
		close(t.gate)
	}
}

// end makes the task end for good.
func (t *task) end(because stopCause) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ending {
		t.ending, t.why = true, because
		close(t.stopRequested)
	}
}

// active reports whether an attempt runs or is to come after a delay.
func (t *task) active() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.opened && !t.ending && t.rec.State.State != api.TaskStateDead
}

// resetDead makes a dead task a pending one; it reports false when the task is not dead. Its goroutine has
// ended by then, or does nothing more.
func (t *task) resetDead() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rec.State.State != api.TaskStateDead {
		return false
	}
	t.append(restartSignal(reasonUserRestart))
	s := t.rec.State
	s.State, s.Failed, s.FinishedAt, s.Restarts, s.LastRestart = api.TaskStatePending, false, time.Time{}, s.Restarts+1, time.Now().UTC()
	t.shown = s
	t.kept = nil
	t.opened, t.ending, t.gate, t.stopRequested = false, false, make(chan struct{}), make(chan struct{})
	return true
}

// alive returns how to reach the running attempt.
func (t *task) alive() (driver.Driver, string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.driver == nil || t.rec.State.State != api.TaskStateRunning {
		return nil, "", fault.New(fault.Conflict, "Task not running")
	}
	return t.driver, t.id, nil
}

func (t *task) askRestart(ctx context.Context, reason string) error {
	select {
	case t.restarts <- restartRequest{reason: reason}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// append adds events to the present state, which is replaced and not changed.
func (t *task) append(events ...*api.TaskEvent) {
	s := *t.rec.State
	s.Events = slices.Clone(s.Events)
	for _, e := range events {
		e.Time = time.Now().UnixNano()
		s.Events = append(s.Events, e)
		if t.g.conf.Happened != nil {
			t.g.conf.Happened(t.name, e)
		}
	}
	if over := len(s.Events) - eventsMax; over > 0 {
		s.Events = s.Events[over:]
	}
	t.rec.State = &s
}

// pace is when a change of the record counts.
type pace int

const (
	// lazily is at once; it becomes durable soon.
	lazily pace = iota
	// firmly is when it is durable; a change that could not be stored is taken back but for its events.
	firmly
	// finally is when it is durable or could not be stored: it holds whatever the disk reports.
	finally
)

// change edits the record, adds events, stores it and notifies the group. A change that could not be stored and still
// holds is only logged: the next write repairs it.
func (t *task) change(when pace, edit func(*store.TaskRecord, *api.TaskState), events ...*api.TaskEvent) error {
	t.mu.Lock()
	before := t.rec
	t.append(events...)
	if edit != nil {
		edit(&t.rec, t.rec.State)
	}
	rec := t.rec
	t.mu.Unlock()
	err := t.g.conf.Store.PutTask(t.name, &rec, when != lazily)
	if err != nil {
		t.g.conf.Log.Error("store task", "task", t.name, "error", err)
	}
	t.mu.Lock()
	if err != nil && when == firmly {
		s := *before.State
		s.Events = t.rec.State.Events
		t.rec, t.rec.State = before, &s
	}
	t.shown = t.rec.State
	t.mu.Unlock()
	t.g.changed()
	return err
}

// emit adds events to the record of the task, which need not be durable.
func (t *task) emit(events ...*api.TaskEvent) { _ = t.change(lazily, nil, events...) }

// finish ends the task for good.
func (t *task) finish(when pace, failed bool, events ...*api.TaskEvent) error {
	return t.change(when, func(r *store.TaskRecord, s *api.TaskState) {
		s.State, s.Failed, s.FinishedAt, s.Paused = api.TaskStateDead, s.Failed || failed, time.Now().UTC(), ""
		r.Handle = nil
	}, events...)
}

// killTimeout is how long the task has between the signal and its violent end.
func (t *task) killTimeout(spec *api.Task) time.Duration {
	d := spec.KillTimeout
	if d <= 0 {
		d = killTimeoutDefault
	}
	if limit := t.g.conf.KillTimeoutMax; limit > 0 {
		d = min(d, limit)
	}
	return d
}

// again reports whether the task is restarted after success as well.
func (t *task) again(spec *api.Task) bool {
	if l := spec.Lifecycle; l != nil {
		return l.Sidecar && l.Hook != api.TaskLifecycleHookPoststop
	}
	switch t.g.present().Job.Type {
	case api.JobTypeService, api.JobTypeSystem:
		return true
	}
	return false
}
