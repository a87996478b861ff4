package tasks

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Reasons that users read.
const (
	reasonUserRestart = "User requested task to restart"
	reasonUserSignal  = "User requested signal"
)

// Stop asks all tasks to end; Run returns when they have. It may be called any number of times.
func (g *Group) Stop() { g.askOnce.Do(func() { close(g.asked) }) }

// Abandon ends the tasks of a group that will not be run, all at once and poststop tasks too: as killed, or as failed in
// their setup when err is given. Attempts of an earlier agent process that still run are taken up and killed. It returns
// when all tasks are dead, or when ctx ends.
func (g *Group) Abandon(ctx context.Context, err error) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, t := range g.tasks {
		if t.row().dead() {
			continue
		}
		if err != nil {
			_ = t.change(lazily, func(_ *store.TaskRecord, s *api.TaskState) { s.Failed = true }, setupFailure(err))
		}
		if !t.seek(ctx) {
			return
		}
		if t.held() {
			t.end(stopCause{event: api.EventKilling})
			all.Go(func() { t.run(ctx) })
			continue
		}
		if err != nil {
			_ = t.finish(lazily, true)
		} else {
			_ = t.finish(lazily, false, killed())
		}
	}
}

// Update takes a new version of the allocation. How a task is stopped counts at once, the rest from its next start on.
func (g *Group) Update(a *api.Allocation) {
	g.mu.Lock()
	g.alloc = a
	g.mu.Unlock()
	if tg := a.Group(); tg != nil {
		for _, t := range g.tasks {
			if spec := tg.Task(t.name); spec != nil {
				t.setSpec(spec)
			}
		}
	}
	g.skipShutdownDelay(a)
}

// skipShutdownDelay skips shutdown delays when the servers ask for it.
func (g *Group) skipShutdownDelay(a *api.Allocation) {
	if a.DesiredTransition.NoShutdownDelay {
		g.skipDelayOnce.Do(func() { close(g.skipDelay) })
	}
}

// States returns the states of all tasks. They are read-only.
func (g *Group) States() map[string]*api.TaskState {
	out := make(map[string]*api.TaskState, len(g.tasks))
	for _, t := range g.tasks {
		out[t.name] = t.state()
	}
	return out
}

// Restart restarts one task, or all running ones when name is empty; the restart policy does not count it.
// With ended, tasks that have ended are started again too, while the group runs.
func (g *Group) Restart(ctx context.Context, name string, ended bool) error {
	return g.each(name, func(t *task) (bool, error) {
		switch {
		case t.isPaused() && name != "":
			return false, fault.New(fault.Conflict, "task %q is paused: nomad alloc pause -state=run %s %s runs it", name, g.present().ID, name)
		case t.isPaused():
			return false, nil
		case t.active():
			return true, t.askRestart(ctx, reasonUserRestart)
		case ended && t.row().dead():
			return true, g.revive(t)
		case name == "":
			return false, nil
		}
		return false, fault.New(fault.Conflict, "Task not running")
	})
}

// Signal sends a signal to one task, or to all running ones when name is empty.
func (g *Group) Signal(ctx context.Context, name, signal string) error {
	if signal == "" {
		signal = "SIGKILL"
	}
	if _, err := driver.ParseSignal(signal); err != nil {
		return err
	}
	return g.each(name, func(t *task) (bool, error) {
		d, id, err := t.alive()
		if err != nil {
			if name == "" {
				return false, nil
			}
			return false, err
		}
		t.emit(signaling(signal, reasonUserSignal))
		return true, d.Signal(ctx, id, signal)
	})
}

// each calls do for one named task or all; it fails when the name is unknown or nothing was done.
func (g *Group) each(name string, do func(*task) (bool, error)) error {
	var errs []error
	found, done := false, false
	for _, t := range g.tasks {
		if name != "" && t.name != name {
			continue
		}
		found = true
		did, err := do(t)
		done = done || did
		errs = append(errs, err)
	}
	if !found && name != "" {
		return fault.New(fault.NotFound, "unknown task name %q", name)
	}
	if err := errors.Join(errs...); err != nil || done {
		return err
	}
	return fault.New(fault.Conflict, "Task not running")
}

// Stats returns what the running tasks use now.
func (g *Group) Stats(ctx context.Context) *api.AllocResourceUsage {
	out := &api.AllocResourceUsage{Tasks: map[string]*api.TaskResourceUsage{}, Timestamp: time.Now().UnixNano()}
	cpu, mem := &api.CpuStats{}, &api.MemoryStats{}
	out.ResourceUsage = &api.ResourceUsage{CpuStats: cpu, MemoryStats: mem}
	for _, t := range g.tasks {
		d, id, err := t.alive()
		if err != nil {
			continue
		}
		u, err := d.Stats(ctx, id)
		if err != nil || u == nil {
			continue
		}
		out.Tasks[t.name] = u
		if r := u.ResourceUsage; r != nil {
			addUsage(cpu, mem, r)
		}
	}
	return out
}

func addUsage(cpu *api.CpuStats, mem *api.MemoryStats, r *api.ResourceUsage) {
	if c := r.CpuStats; c != nil {
		cpu.SystemMode, cpu.UserMode = cpu.SystemMode+c.SystemMode, cpu.UserMode+c.UserMode
		cpu.TotalTicks, cpu.Percent = cpu.TotalTicks+c.TotalTicks, cpu.Percent+c.Percent
		cpu.Measured = c.Measured
	}
	if m := r.MemoryStats; m != nil {
		mem.RSS, mem.Cache, mem.Swap = mem.RSS+m.RSS, mem.Cache+m.Cache, mem.Swap+m.Swap
		mem.Usage, mem.MaxUsage = mem.Usage+m.Usage, mem.MaxUsage+m.MaxUsage
		mem.Measured = m.Measured
	}
}

// RestartFailed restarts a running task as after a failure: its restart policy decides what follows.
func (g *Group) RestartFailed(name, reason string) {
	for _, t := range g.tasks {
		if t.name == name && t.active() {
			t.askOnce(restartRequest{reason: reason, counted: true})
		}
	}
}
