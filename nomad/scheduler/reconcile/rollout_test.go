package reconcile_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// scene is a group that changes: allocations of an older version and of the new one, and a deployment.
type scene struct {
	in  reconcile.Input
	old *api.Job
	d   *api.Deployment
}

// newScene has a group of that count in version 1, whose user differs from version 0.
func newScene(count int, u *api.UpdateStrategy) *scene {
	task := func(user string) []*api.TaskGroup {
		return []*api.TaskGroup{{Name: "g", Count: count, Update: u, Tasks: []*api.Task{{Name: "t", User: user}}}}
	}
	s := &scene{old: &api.Job{ID: "j", Type: api.JobTypeService, CreateIndex: 1, JobModifyIndex: 1, TaskGroups: task("old")}}
	s.in = reconcile.Input{
		Job:   &api.Job{ID: "j", Type: api.JobTypeService, CreateIndex: 1, JobModifyIndex: 2, Version: 1, TaskGroups: task("new")},
		Group: "g", Now: epoch, EvalID: "now",
		Node: func(id string) *api.Node {
			switch id {
			case "gone":
				return nil
			case "down":
				return &api.Node{ID: id, Status: api.NodeStatusDown}
			}
			return &api.Node{ID: id, Status: api.NodeStatusReady}
		},
		CanStay: func(*api.Allocation) bool { return true },
		Pending: func(string) bool { return false },
	}
	return s
}

// add adds a running allocation.
func (s *scene) add(j *api.Job, index int, change ...func(*api.Allocation)) *api.Allocation {
	a := &api.Allocation{
		ID: fmt.Sprint("a", len(s.in.Allocs)), Name: reconcile.Name("j", "g", index), NodeID: "n", Job: j, TaskGroup: "g",
		DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusRunning,
		CreateIndex: uint64(len(s.in.Allocs) + 1),
	}
	for _, f := range change {
		f(a)
	}
	s.in.Allocs = append(s.in.Allocs, a)
	return a
}

func (s *scene) olds(n int) *scene {
	for i := range n {
		s.add(s.old, i)
	}
	return s
}

// deploy gives the new version a deployment with that state.
func (s *scene) deploy(status string, state api.DeploymentState) *scene {
	s.d = &api.Deployment{
		ID: "d", JobID: "j", JobVersion: 1, JobCreateIndex: 1, CreateIndex: 9, Status: status,
		TaskGroups: map[string]*api.DeploymentState{"g": &state},
	}
	s.in.Deployments = []*api.Deployment{s.d}
	s.in.Current, _ = reconcile.Current(s.in.Job, s.in.Deployments)
	return s
}

func member(healthy ...bool) func(*api.Allocation) {
	return func(a *api.Allocation) {
		a.DeploymentID = "d"
		if len(healthy) > 0 {
			a.DeploymentStatus = &api.AllocDeploymentStatus{Healthy: &healthy[0]}
		}
	}
}

func canary(a *api.Allocation) {
	s := api.AllocDeploymentStatus{}
	if a.DeploymentStatus != nil {
		s = *a.DeploymentStatus
	}
	s.Canary = true
	a.DeploymentID, a.DeploymentStatus = "d", &s
}

func failed(a *api.Allocation) {
	a.ClientStatus, a.ModifyTime = api.AllocClientStatusFailed, epoch.UnixNano()
}

func on(node string) func(*api.Allocation) { return func(a *api.Allocation) { a.NodeID = node } }

// told is a result in short.
func told(r reconcile.Result) string {
	var places, stops []string
	for _, p := range r.Place {
		s := fmt.Sprint(reconcile.Index(p.Name))
		for mark, set := range map[string]bool{"c": p.Canary, "o": p.Job != nil} {
			if set {
				s += mark
			}
		}
		if p.Stop != nil {
			s += "<" + p.Stop.Alloc.ID
		}
		places = append(places, s)
	}
	for _, s := range r.Stop {
		stops = append(stops, s.Alloc.ID)
	}
	slices.Sort(stops)
	return fmt.Sprintf("place %v stop %v", places, stops)
}

const (
	running = api.DeploymentStatusRunning
	failing = api.DeploymentStatusFailed
	paused  = api.DeploymentStatusPaused
)

func TestRules(t *testing.T) {
	limit := &api.UpdateStrategy{MaxParallel: 2}
	tried := &api.UpdateStrategy{MaxParallel: 2, Canary: 1}
	retry := &api.ReschedulePolicy{Unlimited: true, DelayFunction: "constant"}
	mark := func(tr api.DesiredTransition) func(*api.Allocation) {
		return func(a *api.Allocation) { a.DesiredTransition = tr }
	}
	for _, c := range []struct {
		rule  string
		scene func() *scene
		want  string
	}{
		{"5.2 an older canary is stopped", func() *scene {
			s := newScene(2, limit).olds(2)
			s.add(s.old, 0, canary)
			s.in.Deployments = []*api.Deployment{{ID: "d", TaskGroups: map[string]*api.DeploymentState{"g": {DesiredCanaries: 1}}}}
			return s
		}, "place [0<a0 1<a1] stop [a2]"},
		{"5.2 a canary of a failed deployment is stopped", func() *scene {
			s := newScene(2, tried).olds(2).deploy(failing, api.DeploymentState{DesiredCanaries: 1})
			s.add(s.in.Job, 0, canary)
			return s
		}, "place [] stop [a2]"},
		{"5.2 a canary that must move stays a canary", func() *scene {
			s := newScene(2, tried).olds(2).deploy(running, api.DeploymentState{DesiredCanaries: 1})
			s.add(s.in.Job, 0, canary, mark(api.DesiredTransition{Migrate: true}))
			return s
		}, "place [0c] stop [a2]"},
		{"5.3 count 0 stops all", func() *scene {
			s := newScene(0, limit)
			s.add(s.in.Job, 0)
			s.add(s.old, 1)
			return s
		}, "place [] stop [a0 a1]"},
		{"5.4 after promotion the old one with the name of a canary goes", func() *scene {
			s := newScene(2, tried).olds(2).deploy(running, api.DeploymentState{DesiredCanaries: 1, Promoted: true})
			s.add(s.in.Job, 1, member(true), canary)
			return s
		}, "place [0<a0] stop [a1]"},
		{"5.5 finished work of an older version is done again only by a new version", func() *scene {
			s := newScene(1, nil)
			s.in.Job.Type = api.JobTypeBatch
			s.add(s.old, 0, func(a *api.Allocation) { a.ClientStatus = api.AllocClientStatusComplete })
			return s
		}, "place [0] stop []"},
		{"5.5 finished work counts", func() *scene {
			s := newScene(1, nil)
			s.in.Job.Type = api.JobTypeBatch
			s.add(s.in.Job, 0, func(a *api.Allocation) { a.ClientStatus = api.AllocClientStatusComplete })
			return s
		}, "place [] stop []"},
		{"5.7 no update block, all at once", func() *scene { return newScene(3, nil).olds(3) }, "place [0<a0 1<a1 2<a2] stop []"},
		{"5.7 max_parallel 0, all at once", func() *scene {
			return newScene(3, &api.UpdateStrategy{Canary: 1}).olds(3)
		}, "place [0<a0 1<a1 2<a2] stop []"},
		{"5.7 at first max_parallel", func() *scene { return newScene(3, limit).olds(3) }, "place [0<a0 1<a1] stop []"},
		{"5.7 less those not yet healthy", func() *scene {
			s := newScene(3, limit).deploy(running, api.DeploymentState{DesiredTotal: 3})
			s.add(s.in.Job, 0, member())
			s.add(s.old, 1)
			s.add(s.old, 2)
			return s
		}, "place [1<a1] stop []"},
		{"5.7 an unhealthy one stops all", func() *scene {
			s := newScene(3, limit).deploy(running, api.DeploymentState{DesiredTotal: 3})
			s.add(s.in.Job, 0, member(false))
			s.add(s.old, 1)
			return s
		}, "place [2] stop []"},
		{"5.7 new placements use up the same", func() *scene { return newScene(4, limit).olds(3) }, "place [3 0<a0] stop []"},
		{"5.8 failed: nothing new", func() *scene {
			s := newScene(4, limit).deploy(failing, api.DeploymentState{DesiredTotal: 3}).olds(2)
			s.add(s.in.Job, 2, member(false))
			return s
		}, "place [] stop []"},
		{"5.8 failed: lost ones are replaced", func() *scene {
			s := newScene(2, limit).deploy(failing, api.DeploymentState{DesiredTotal: 2})
			s.add(s.old, 0)
			s.add(s.in.Job, 1, member(true), on("down"))
			return s
		}, "place [1] stop [a1]"},
		{"5.8 failed: failed ones of it stay, others are tried again", func() *scene {
			s := newScene(2, limit).deploy(failing, api.DeploymentState{DesiredTotal: 2})
			s.in.Job.TaskGroups[0].ReschedulePolicy = retry
			s.add(s.in.Job, 0, failed)
			s.add(s.in.Job, 1, failed, member(false))
			return s
		}, "place [0<a0] stop []"},
		{"5.8 paused: nothing new", func() *scene {
			return newScene(3, limit).olds(2).deploy(paused, api.DeploymentState{DesiredTotal: 3})
		}, "place [] stop []"},
		{"5.9 lost while canaries wait: the old version", func() *scene {
			s := newScene(2, tried).deploy(running, api.DeploymentState{DesiredCanaries: 1})
			s.add(s.old, 0)
			s.add(s.old, 1, on("gone"))
			s.add(s.in.Job, 0, member(true), canary)
			return s
		}, "place [1o] stop [a1]"},
		{"5.9 moved while canaries wait: the old version", func() *scene {
			s := newScene(2, tried).deploy(running, api.DeploymentState{DesiredCanaries: 1})
			s.add(s.old, 0)
			s.add(s.old, 1, mark(api.DesiredTransition{Migrate: true}))
			s.add(s.in.Job, 0, member(true), canary)
			return s
		}, "place [1o] stop [a1]"},
		{"5.9 missing while canaries wait: the old version", func() *scene {
			s := newScene(2, tried).deploy(running, api.DeploymentState{DesiredCanaries: 1})
			s.add(s.old, 0)
			s.add(s.in.Job, 0, member(true), canary)
			return s
		}, "place [1o] stop []"},
		{"6.2 canaries come first and take names of the old", func() *scene {
			return newScene(2, &api.UpdateStrategy{MaxParallel: 1, Canary: 3}).olds(2)
		}, "place [0c 1c 2c] stop []"},
		{"6.2 what is missing of the canaries", func() *scene {
			s := newScene(3, tried).olds(3).deploy(running, api.DeploymentState{DesiredCanaries: 2})
			s.add(s.in.Job, 0, canary)
			return s
		}, "place [1c] stop []"},
		{"6.2 a lost canary is placed again", func() *scene {
			s := newScene(2, tried).olds(2).deploy(running, api.DeploymentState{DesiredCanaries: 1})
			s.add(s.in.Job, 0, canary, on("down"))
			return s
		}, "place [0c] stop [a2]"},
		{"6.2 paused: no canaries", func() *scene {
			return newScene(2, tried).olds(2).deploy(paused, api.DeploymentState{DesiredCanaries: 1})
		}, "place [] stop []"},
		{"6.2 nothing destructive, no canaries", func() *scene {
			s := newScene(3, tried)
			s.old.TaskGroups[0].Tasks[0].User = "new"
			return s.olds(2)
		}, "place [2] stop []"},
		{"7.4 in a deployment only who is marked is tried again", func() *scene {
			s := newScene(2, limit).deploy(running, api.DeploymentState{DesiredTotal: 2})
			s.in.Job.TaskGroups[0].ReschedulePolicy = retry
			s.add(s.in.Job, 0, failed, member())
			s.add(s.in.Job, 1, failed, member(), mark(api.DesiredTransition{Reschedule: true}))
			return s
		}, "place [1<a1] stop []"},
		{"7.4 a marked canary is tried again as canary", func() *scene {
			s := newScene(1, tried).olds(1).deploy(running, api.DeploymentState{DesiredCanaries: 1})
			s.in.Job.TaskGroups[0].ReschedulePolicy = retry
			s.add(s.in.Job, 0, failed, canary, mark(api.DesiredTransition{Reschedule: true}))
			return s
		}, "place [0c<a1] stop []"},
		{"15.5 forced", func() *scene {
			s := newScene(1, limit)
			s.add(s.in.Job, 0, failed, mark(api.DesiredTransition{ForceReschedule: true}))
			return s
		}, "place [0<a0] stop []"},
	} {
		if got := told(reconcile.Group(c.scene().in)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.rule, got, c.want)
		}
	}
}

func TestStoppedByUserAndRescheduled(t *testing.T) {
	s := newScene(1, nil)
	a := s.add(s.in.Job, 0)
	for _, again := range []bool{false, true} {
		a.DesiredTransition = api.DesiredTransition{Migrate: true, Reschedule: again}
		if r := reconcile.Group(s.in); len(r.Place) != 1 || r.Place[0].Failed != again {
			t.Errorf("reschedule %v: %+v", again, r.Place)
		}
	}
}

func TestDeploymentBegins(t *testing.T) {
	u := &api.UpdateStrategy{MaxParallel: 1, Canary: 2, AutoRevert: true, AutoPromote: true, ProgressDeadline: time.Minute}
	for name, c := range map[string]struct {
		scene           func() *scene
		total, canaries int
	}{
		"nothing of this version ran": {func() *scene { return newScene(3, u) }, 3, 0},
		"the specification changes":   {func() *scene { return newScene(3, u).olds(2) }, 3, 2},
		"in place": {func() *scene {
			s := newScene(3, u)
			s.old.TaskGroups[0].Tasks[0].User = "new"
			return s.olds(3)
		}, 3, 0},
		"no update block": {func() *scene { return newScene(3, nil) }, -1, 0},
		"max_parallel 0":  {func() *scene { return newScene(3, &api.UpdateStrategy{}) }, -1, 0},
		"nothing desired": {func() *scene { return newScene(0, u).olds(1) }, -1, 0},
		"it exists":       {func() *scene { return newScene(2, u).deploy(running, api.DeploymentState{}).olds(1) }, -1, 0},
		"it failed":       {func() *scene { return newScene(2, u).deploy(failing, api.DeploymentState{}).olds(1) }, -1, 0},
		"it was cancelled": {func() *scene {
			return newScene(1, u).deploy(api.DeploymentStatusCancelled, api.DeploymentState{}).olds(1)
		}, 1, 2},
		"it succeeded, one lost": {func() *scene {
			s := newScene(2, u).deploy(api.DeploymentStatusSuccessful, api.DeploymentState{})
			s.add(s.in.Job, 0)
			s.add(s.in.Job, 1, on("down"))
			return s
		}, -1, 0},
		"batch": {func() *scene { s := newScene(1, u); s.in.Job.Type = api.JobTypeBatch; return s }, -1, 0},
	} {
		state := reconcile.Group(c.scene().in).State
		switch {
		case (state == nil) != (c.total < 0):
			t.Errorf("%s: %+v", name, state)
		case state == nil:
		case state.DesiredTotal != c.total || state.DesiredCanaries != c.canaries || !state.AutoRevert || !state.AutoPromote || state.ProgressDeadline != time.Minute:
			t.Errorf("%s: %+v", name, state)
		}
	}
}

func TestDeploymentIsSettled(t *testing.T) {
	u := &api.UpdateStrategy{MaxParallel: 1}
	for name, c := range map[string]struct {
		state  api.DeploymentState
		change func(*scene)
		want   bool
	}{
		"all healthy":    {api.DeploymentState{DesiredTotal: 2, HealthyAllocs: 2}, nil, true},
		"one to come":    {api.DeploymentState{DesiredTotal: 2, HealthyAllocs: 1}, nil, false},
		"not promoted":   {api.DeploymentState{DesiredTotal: 1, DesiredCanaries: 1, HealthyAllocs: 2}, nil, false},
		"promoted":       {api.DeploymentState{DesiredTotal: 1, DesiredCanaries: 1, HealthyAllocs: 1, Promoted: true}, nil, true},
		"more canaries":  {api.DeploymentState{DesiredTotal: 1, DesiredCanaries: 3, HealthyAllocs: 2, Promoted: true}, nil, false},
		"one of the old": {api.DeploymentState{DesiredTotal: 2, HealthyAllocs: 2}, func(s *scene) { s.in.Allocs[1].Job = s.old }, false},
		"one missing":    {api.DeploymentState{DesiredTotal: 2, HealthyAllocs: 2}, func(s *scene) { s.in.Allocs = s.in.Allocs[:1] }, false},
		"one waits": {api.DeploymentState{DesiredTotal: 2, HealthyAllocs: 2}, func(s *scene) {
			s.in.Job.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, Delay: time.Hour}
			failed(s.in.Allocs[0])
			s.in.Allocs[0].DesiredTransition.Reschedule = true
		}, false},
	} {
		s := newScene(2, u).deploy(running, c.state)
		s.add(s.in.Job, 0, member(true))
		s.add(s.in.Job, 1, member(true))
		if c.change != nil {
			c.change(s)
		}
		if r := reconcile.Group(s.in); r.Settled != c.want {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestCurrentDeployment(t *testing.T) {
	job := &api.Job{Version: 3, CreateIndex: 7}
	d := func(id string, version, created uint64, status string) *api.Deployment {
		return &api.Deployment{ID: id, JobVersion: version, JobCreateIndex: 7, CreateIndex: created, Status: status}
	}
	all := []*api.Deployment{
		d("older", 2, 1, running), d("earlier", 3, 2, api.DeploymentStatusSuccessful), d("now", 3, 4, paused), d("failed", 1, 3, failing),
	}
	current, updates := reconcile.Current(job, all)
	if current == nil || current.ID != "now" || len(updates) != 1 || updates[0].DeploymentID != "older" ||
		updates[0].StatusDescription != "Cancelled due to newer version of job" {
		t.Fatalf("current %+v, updates %+v", current, updates)
	}
	all[2].Status = api.DeploymentStatusSuccessful
	if current, _ := reconcile.Current(job, all); current != nil {
		t.Fatalf("a successful one is current: %+v", current)
	}
	for _, gone := range []*api.Job{nil, {Version: 3, CreateIndex: 7, Stop: true}} {
		if current, updates := reconcile.Current(gone, all); current != nil || len(updates) != 1 || updates[0].StatusDescription != "Cancelled because job is stopped" {
			t.Fatalf("stopped: %+v, %+v", current, updates)
		}
	}
}
