package allocs

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

func TestAssessKnowsTheKindsOfTasks(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	same := func(t time.Time) moment { return moment(t.UnixNano()) }
	after := func(d time.Duration) moment { return same(at.Add(d)) }
	task := func(name, hook string, sidecar bool) *api.Task {
		out := &api.Task{Name: name}
		if hook != "" {
			out.Lifecycle = &api.TaskLifecycle{Hook: hook, Sidecar: sidecar}
		}
		return out
	}
	g := &api.TaskGroup{Tasks: []*api.Task{
		task("main", "", false), task("init", "prestart", false), task("proxy", "prestart", true),
		task("hello", "poststart", false), task("bye", "poststop", false),
	}}
	well := func() map[string]*api.TaskState {
		return map[string]*api.TaskState{
			"main":  {State: api.TaskStateRunning, StartedAt: at},
			"init":  {State: api.TaskStateDead, FinishedAt: at},
			"proxy": {State: api.TaskStateRunning, StartedAt: at},
			"hello": {State: api.TaskStateDead, FinishedAt: at.Add(5 * time.Second)},
			"bye":   {State: api.TaskStatePending},
		}
	}
	r := rules{least: 10 * time.Second, deadline: time.Minute}
	if o := assess(g, well(), r, after(0), after(14*time.Second), same); o.decided || o.again != after(15*time.Second) {
		t.Errorf("before the last task was well for long enough: %+v", o)
	}
	if o := assess(g, well(), r, after(0), after(15*time.Second), same); !o.decided || !o.healthy {
		t.Errorf("all well: %+v", o)
	}
	for _, by := range []string{api.PausedBySchedule, api.PausedByUser} {
		states := well()
		states["main"] = &api.TaskState{State: api.TaskStatePending, Paused: by}
		if o := assess(g, states, r, after(0), after(15*time.Second), same); !o.decided || !o.healthy {
			t.Errorf("main is paused: %+v", o)
		}
		if s, text := status(map[string]*api.TaskState{"main": states["main"]}, nil); s != api.AllocClientStatusPending || text != "Tasks are paused" {
			t.Errorf("all is paused: %s, %s", s, text)
		}
	}
	for name, c := range map[string]struct {
		task    string
		state   api.TaskState
		decided bool
	}{
		"prestart runs":      {"init", api.TaskState{State: api.TaskStateRunning, StartedAt: at}, false},
		"prestart failed":    {"init", api.TaskState{State: api.TaskStateDead, Failed: true}, true},
		"poststart runs":     {"hello", api.TaskState{State: api.TaskStateRunning, StartedAt: at}, false},
		"sidecar ended":      {"proxy", api.TaskState{State: api.TaskStateDead}, true},
		"sidecar is pending": {"proxy", api.TaskState{State: api.TaskStatePending}, false},
		"main ended":         {"main", api.TaskState{State: api.TaskStateDead}, true},
	} {
		states := well()
		states[c.task] = &c.state
		o := assess(g, states, r, after(0), after(30*time.Second), same)
		if o.decided != c.decided || o.healthy || !c.decided && o.again != after(time.Minute) {
			t.Errorf("%s: %+v", name, o)
		}
	}
	states := well()
	states["bye"] = &api.TaskState{State: api.TaskStateDead, Failed: true}
	if o := assess(g, states, r, after(0), after(30*time.Second), same); !o.healthy {
		t.Errorf("a poststop task counts: %+v", o)
	}
	if o := assess(g, map[string]*api.TaskState{}, r, after(0), after(time.Minute), same); !o.decided || o.healthy {
		t.Errorf("the deadline passed without tasks: %+v", o)
	}
}
