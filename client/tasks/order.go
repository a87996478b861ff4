package tasks

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// row is what the order of tasks depends on.
type row struct {
	name    string
	hook    string // "" for main tasks
	sidecar bool
	leader  bool
	state   string
	// opened is set when the task's gate is open, started when it ran at least once, failed when it failed for good.
	opened, started, failed bool
	// ending is set when the task was asked to end.
	ending bool
	// began is when it was started last, ended when it died; zero when it was not, or did not.
	began, ended time.Time
}

func (r row) main() bool { return r.hook == "" }
func (r row) dead() bool { return r.state == api.TaskStateDead }

// stopCause is the reason why a task has to end.
type stopCause struct{ event, sibling string }

// orders is what has to happen next.
type orders struct {
	open []string
	end  map[string]stopCause
}

// order decides which gates open and which tasks end; stopping is set when the whole allocation has to end. It is
// level-triggered: with the same rows it returns the same orders.
func order(rows []row, stopping bool) orders {
	out := orders{end: map[string]stopCause{}}
	reason, over := cause(rows, stopping)
	if over {
		for _, r := range nextToEnd(rows) {
			out.end[r.name] = reason
		}
	} else {
		out.open = gates(rows)
		if mainsDead(rows) {
			for _, r := range rows {
				if r.hook == api.TaskLifecycleHookPrestart || r.hook == api.TaskLifecycleHookPoststart {
					end(out, r, stopCause{event: api.EventMainDead})
				}
			}
		}
	}
	if mainsDead(rows) {
		for _, r := range rows {
			if r.hook == api.TaskLifecycleHookPoststop && !r.opened && !r.dead() {
				out.open = append(out.open, r.name)
			}
		}
	}
	return out
}

func end(out orders, r row, because stopCause) {
	if !r.dead() && !r.ending {
		out.end[r.name] = because
	}
}

// misplaced reports whether a poststop task runs that was begun as another kind of task: an update changed that.
func misplaced(r row, rows []row) bool {
	if r.hook != api.TaskLifecycleHookPoststop || r.state != api.TaskStateRunning {
		return false
	}
	for _, m := range rows {
		if m.main() && (!m.dead() || m.ended.After(r.began)) {
			return true
		}
	}
	return false
}

// cause reports whether and why all tasks but poststop ones must end.
func cause(rows []row, stopping bool) (stopCause, bool) {
	if stopping {
		return stopCause{event: api.EventKilling}, true
	}
	for _, r := range rows {
		if r.dead() && r.failed && r.hook != api.TaskLifecycleHookPoststop {
			return stopCause{event: api.EventSiblingFailed, sibling: r.name}, true
		}
	}
	for _, r := range rows {
		if r.leader && r.dead() && r.hook != api.TaskLifecycleHookPoststop {
			return stopCause{event: api.EventLeaderDead}, true
		}
	}
	return stopCause{}, false
}

// nextToEnd selects the tasks that end now: first a leader alone, then the main and short tasks, then the sidecars.
func nextToEnd(rows []row) []row {
	stages := make([][]row, 3)
	for _, r := range rows {
		switch {
		case r.dead() || r.hook == api.TaskLifecycleHookPoststop && !misplaced(r, rows):
		case r.leader:
			stages[0] = append(stages[0], r)
		case !r.sidecar:
			stages[1] = append(stages[1], r)
		default:
			stages[2] = append(stages[2], r)
		}
	}
	for _, stage := range stages {
		if len(stage) == 0 {
			continue
		}
		var out []row
		for _, r := range stage {
			if !r.ending {
				out = append(out, r)
			}
		}
		return out
	}
	return nil
}

// gates lists the closed gates that may open while the allocation continues.
func gates(rows []row) []string {
	prestarted, mainsStarted := true, true
	for _, r := range rows {
		switch {
		case r.hook == api.TaskLifecycleHookPrestart && r.sidecar:
			prestarted = prestarted && r.started
		case r.hook == api.TaskLifecycleHookPrestart:
			prestarted = prestarted && r.dead() && !r.failed
		case r.main():
			mainsStarted = mainsStarted && r.started
		}
	}
	var out []string
	for _, r := range rows {
		if r.opened || r.dead() {
			continue
		}
		switch r.hook {
		case api.TaskLifecycleHookPrestart:
			out = append(out, r.name)
		case "":
			if prestarted {
				out = append(out, r.name)
			}
		case api.TaskLifecycleHookPoststart:
			if mainsStarted {
				out = append(out, r.name)
			}
		}
	}
	return out
}

func mainsDead(rows []row) bool {
	for _, r := range rows {
		if r.main() && !r.dead() {
			return false
		}
	}
	return true
}
