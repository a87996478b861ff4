package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// group makes a job with one group of that count and running allocations with these indexes.
func group(count int, indexes ...int) (reconcile.Input, []*api.Allocation) {
	j := &api.Job{ID: "j", Type: api.JobTypeService, JobModifyIndex: 5, TaskGroups: []*api.TaskGroup{{Name: "g", Count: count}}}
	var allocs []*api.Allocation
	for i, index := range indexes {
		allocs = append(allocs, &api.Allocation{
			ID: fmt.Sprint("a", i), Name: reconcile.Name("j", "g", index), NodeID: "n", Job: j, TaskGroup: "g",
			DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusRunning,
		})
	}
	return reconcile.Input{
		Job: j, Group: "g", Allocs: allocs, Now: epoch, EvalID: "now",
		Node:    func(string) *api.Node { return &api.Node{ID: "n", Status: api.NodeStatusReady} },
		CanStay: func(*api.Allocation) bool { return true },
		Pending: func(string) bool { return false },
	}, allocs
}

func TestSurplusStopsHighestNamesAndSecondBearersFirst(t *testing.T) {
	in, _ := group(2, 0, 1, 1, 7)
	r := reconcile.Group(in)
	stopped := map[string]bool{}
	for _, s := range r.Stop {
		stopped[s.Alloc.ID] = true
	}
	if len(stopped) != 2 || !stopped["a3"] || stopped["a0"] || len(r.Place) != 0 {
		t.Fatalf("stopped %v, placed %d", stopped, len(r.Place))
	}
}

// Of what is too much, what moves goes before what stays, also where names say nothing.
func TestOfTheSurplusWhatMovesGoesFirst(t *testing.T) {
	in, all := group(1, 0, 0)
	for i, a := range all {
		a.Name = fmt.Sprint("nameless ", i)
	}
	all[0].DesiredTransition.Migrate = true
	r := reconcile.Group(in)
	if len(r.Stop) != 1 || r.Stop[0].Alloc != all[0] || r.Stop[0].Description != reconcile.NotNeeded || len(r.Place) != 0 {
		t.Errorf("stopped %+v, placed %+v", r.Stop, r.Place)
	}
}

// A drain that marks what has failed already does not make its next try come sooner; a user who stops it for a new
// place does.
func TestFailedAllocationThatShouldMoveIsRescheduledByItsPolicy(t *testing.T) {
	for rescheduled, want := range map[bool]int{false: 0, true: 1} {
		in, all := group(1, 0)
		in.Job.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, Delay: time.Hour, DelayFunction: "constant"}
		all[0].ClientStatus, all[0].ModifyTime = api.AllocClientStatusFailed, epoch.UnixNano()
		all[0].DesiredTransition = api.DesiredTransition{Migrate: true, Reschedule: rescheduled}
		if r := reconcile.Group(in); len(r.Place) != want {
			t.Errorf("rescheduled %v: placed %+v", rescheduled, r.Place)
		}
	}
}

func TestFreeNamesAreFilledLowestFirst(t *testing.T) {
	in, _ := group(5, 1, 3)
	var names []string
	for _, p := range reconcile.Group(in).Place {
		names = append(names, p.Name)
	}
	if fmt.Sprint(names) != "[j.g[0] j.g[2] j.g[4]]" {
		t.Fatalf("placed %v", names)
	}
}

func TestLostBeyondTheCountIsNotReplaced(t *testing.T) {
	in, _ := group(1, 0, 1)
	in.Node = func(string) *api.Node { return nil }
	r := reconcile.Group(in)
	if len(r.Stop) != 2 || len(r.Place) != 1 || r.Place[0].Previous == nil {
		t.Fatalf("stops %d, places %+v", len(r.Stop), r.Place)
	}
}

// A successor that found no place at first follows its predecessor all the same.
func TestWhoHadToWaitFollowsItsPredecessor(t *testing.T) {
	// gone leaves name 1 without an allocation: the last one, a1, was told to stop for a reason.
	gone := func(why, client string) (reconcile.Input, []*api.Allocation) {
		in, allocs := group(3, 0, 1, 2)
		for i, a := range allocs {
			a.CreateIndex = uint64(i + 1)
		}
		a := allocs[1]
		a.DesiredStatus, a.DesiredDescription, a.ClientStatus = api.AllocDesiredStatusStop, why, client
		return in, allocs
	}
	lost := func(in reconcile.Input) string { // as the plan that stops it says
		in.Node = func(string) *api.Node { return nil }
		return reconcile.Group(in).Stop[0].Description
	}
	in, _ := group(3, 0, 1, 2)
	nodeGone := lost(in)
	for name, c := range map[string]struct {
		why, client string
		change      func(in *reconcile.Input, allocs []*api.Allocation)
		follows     bool
	}{
		"drained":                      {reconcile.Migrating, api.AllocClientStatusRunning, nil, true},
		"drained, and it has ended":    {reconcile.Migrating, api.AllocClientStatusComplete, nil, true},
		"lost":                         {nodeGone, api.AllocClientStatusLost, nil, true},
		"stopped as it was not wanted": {reconcile.NotNeeded, api.AllocClientStatusComplete, nil, false},
		"of an earlier job of that name": {reconcile.Migrating, api.AllocClientStatusComplete, func(in *reconcile.Input, _ []*api.Allocation) {
			j := *in.Job
			j.CreateIndex, in.Job = 9, &j
		}, false},
		"followed by another that is not wanted any more": {reconcile.Migrating, api.AllocClientStatusComplete, func(in *reconcile.Input, allocs []*api.Allocation) {
			later := *allocs[1]
			later.ID, later.CreateIndex, later.DesiredDescription = "later", 7, reconcile.NotNeeded
			in.Allocs = append(in.Allocs, &later)
		}, false},
		"a canary that nobody promoted": {reconcile.Migrating, api.AllocClientStatusComplete, func(_ *reconcile.Input, allocs []*api.Allocation) {
			allocs[1].DeploymentStatus = &api.AllocDeploymentStatus{Canary: true}
		}, false},
	} {
		in, allocs := gone(c.why, c.client)
		if c.change != nil {
			c.change(&in, allocs)
		}
		r := reconcile.Group(in)
		if len(r.Place) == 0 {
			t.Errorf("%s: nothing is placed", name)
			continue
		}
		pl := r.Place[len(r.Place)-1]
		for _, other := range r.Place {
			if other.Name == "j.g[1]" {
				pl = other
			}
		}
		if got := pl.Previous == allocs[1]; got != c.follows || pl.Name != "j.g[1]" || pl.Stop != nil || len(r.Place) != 1 && c.follows {
			t.Errorf("%s: %+v of %d", name, pl, len(r.Place))
		}
	}
}

// A canary that tries out what is to come has the name too.
func TestWhoHadToWaitFollowsItsPredecessorBesideACanary(t *testing.T) {
	in, allocs := group(2, 0, 1)
	next := *in.Job
	next.Version, next.JobModifyIndex = 1, 9
	next.TaskGroups = []*api.TaskGroup{{Name: "g", Count: 2, Update: &api.UpdateStrategy{MaxParallel: 1, Canary: 1}, Meta: map[string]string{"new": "1"}}}
	in.Job = &next
	in.Current = &api.Deployment{ID: "d", JobVersion: 1, Status: api.DeploymentStatusRunning, TaskGroups: map[string]*api.DeploymentState{
		"g": {DesiredCanaries: 1, DesiredTotal: 2, PlacedCanaries: []string{"canary"}},
	}}
	in.Deployments = []*api.Deployment{in.Current}
	canary := *allocs[1]
	canary.ID, canary.Job, canary.CreateIndex, canary.DeploymentID = "canary", &next, 5, "d"
	canary.DeploymentStatus = &api.AllocDeploymentStatus{Canary: true}
	allocs[1].DesiredStatus, allocs[1].DesiredDescription, allocs[1].ClientStatus = api.AllocDesiredStatusStop, reconcile.Migrating, api.AllocClientStatusComplete
	in.Allocs = append(in.Allocs, &canary)
	if r := reconcile.Group(in); len(r.Place) != 1 || r.Place[0].Previous != allocs[1] || r.Place[0].Job != allocs[1].Job {
		t.Errorf("places %+v", r.Place)
	}
}

// What replaces lost allocations comes also while a roll-out is halted, now or later.
func TestWhoHadToWaitComesWhileARollOutIsHalted(t *testing.T) {
	in, allocs := group(2, 0, 1)
	in.Job.TaskGroups[0].Update = &api.UpdateStrategy{MaxParallel: 1}
	in.Current = &api.Deployment{ID: "d", Status: api.DeploymentStatusFailed, TaskGroups: map[string]*api.DeploymentState{"g": {}}}
	allocs[1].DesiredStatus, allocs[1].DesiredDescription, allocs[1].ClientStatus = api.AllocDesiredStatusStop, reconcile.Migrating, api.AllocClientStatusComplete
	if r := reconcile.Group(in); len(r.Place) != 1 || r.Place[0].Previous != allocs[1] {
		t.Errorf("places %+v", r.Place)
	}
}

func TestFailedAllocationOfAnOldVersionStartsAfresh(t *testing.T) {
	in, allocs := group(1, 0)
	old := *in.Job
	allocs[0].Job, allocs[0].ClientStatus = &old, api.AllocClientStatusFailed
	in.Job.Version, in.Job.JobModifyIndex = 1, 9
	r := reconcile.Group(in)
	if len(r.Place) != 1 || r.Place[0].Failed || len(r.Stop) != 1 {
		t.Fatalf("result %+v", r)
	}
}

func TestDisconnectedAllocationIsUnknownAndReplaced(t *testing.T) {
	in, allocs := group(1, 0)
	in.Job.TaskGroups[0].Disconnect = &api.DisconnectStrategy{LostAfter: time.Hour, Replace: true}
	in.Node = func(string) *api.Node { return &api.Node{Status: api.NodeStatusDisconnected} }
	r := reconcile.Group(in)
	if len(r.StatusUpdates) != 1 || r.StatusUpdates[0].ClientStatus != api.AllocClientStatusUnknown || !r.StatusUpdates[0].RescheduleAt.Equal(epoch.Add(time.Hour)) {
		t.Fatalf("amends %+v", r.StatusUpdates)
	}
	if len(r.Place) != 1 || len(r.Stop) != 0 {
		t.Fatalf("places %d, stops %d", len(r.Place), len(r.Stop))
	}
	allocs[0].ClientStatus = api.AllocClientStatusUnknown
	allocs[0].AllocStates = []*api.AllocState{{Value: api.AllocClientStatusUnknown, Time: epoch.Add(-time.Hour)}}
	if r = reconcile.Group(in); len(r.Stop) != 1 || r.Stop[0].ClientStatus != api.AllocClientStatusLost {
		t.Fatalf("after the time was over: %+v", r.Stop)
	}
}

func TestDestructive(t *testing.T) {
	job := func(change func(*api.Job)) *api.Job {
		j := &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{{Name: "g", Count: 1, Tasks: []*api.Task{{
			Name: "t", Driver: "d", Resources: &api.Resources{CPU: 1}, LogConfig: &api.LogConfig{MaxFiles: 1},
		}}}}}
		change(j)
		return j
	}
	for name, c := range map[string]struct {
		change func(*api.Job)
		want   bool
	}{
		"nothing":       {func(*api.Job) {}, false},
		"count":         {func(j *api.Job) { j.TaskGroups[0].Count = 5 }, false},
		"constraint":    {func(j *api.Job) { j.Constraints = []*api.Constraint{{}} }, false},
		"priority":      {func(j *api.Job) { j.Priority = 9 }, false},
		"kill timeout":  {func(j *api.Job) { j.TaskGroups[0].Tasks[0].KillTimeout = 1 }, false},
		"log size":      {func(j *api.Job) { j.TaskGroups[0].Tasks[0].LogConfig.MaxFiles = 7 }, false},
		"service check": {func(j *api.Job) { j.TaskGroups[0].Services = []*api.Service{{Name: "s"}} }, false},
		"empty map":     {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{} }, false},
		"env":           {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"a": "b"} }, true},
		"config":        {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Config = map[string]any{"a": 1} }, true},
		"job meta":      {func(j *api.Job) { j.Meta = map[string]string{"a": "b"} }, true},
		"cpu":           {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = 2 }, true},
		"logs disabled": {func(j *api.Job) { j.TaskGroups[0].Tasks[0].LogConfig.Disabled = true }, true},
		"second task":   {func(j *api.Job) { j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, &api.Task{}) }, true},
		"task name":     {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Name = "u" }, true},
		"group gone":    {func(j *api.Job) { j.TaskGroups[0].Name = "h" }, true},
		"network":       {func(j *api.Job) { j.TaskGroups[0].Networks = []*api.NetworkResource{{Mode: "host"}} }, true},
		"plugin":        {func(j *api.Job) { j.TaskGroups[0].Tasks[0].CSIPluginConfig = &api.CSIPluginConfig{ID: "p"} }, true},
		"volume": {func(j *api.Job) {
			j.TaskGroups[0].Volumes = map[string]*api.VolumeRequest{"v": {Source: "v"}}
		}, true},
		"disk":             {func(j *api.Job) { j.TaskGroups[0].EphemeralDisk = &api.EphemeralDisk{SizeMB: 9} }, true},
		"group consul":     {func(j *api.Job) { j.TaskGroups[0].Consul = &api.Consul{Namespace: "n"} }, true},
		"render templates": {func(j *api.Job) { j.TaskGroups[0].RestartPolicy = &api.RestartPolicy{RenderTemplates: true} }, true},
		"restart attempts": {func(j *api.Job) { j.TaskGroups[0].RestartPolicy = &api.RestartPolicy{Attempts: 9} }, false},
		"reschedule":       {func(j *api.Job) { j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Attempts: 9} }, false},
		"update":           {func(j *api.Job) { j.TaskGroups[0].Update = &api.UpdateStrategy{MaxParallel: 9} }, false},
		"affinity":         {func(j *api.Job) { j.TaskGroups[0].Affinities = []*api.Affinity{{}} }, false},
		"spread":           {func(j *api.Job) { j.TaskGroups[0].Spreads = []*api.Spread{{}} }, false},
		"scaling":          {func(j *api.Job) { j.TaskGroups[0].Scaling = &api.ScalingPolicy{Max: 9} }, false},
		"connect": {func(j *api.Job) {
			j.TaskGroups[0].Services = []*api.Service{{Name: "s", Connect: &api.ConsulConnect{}}}
		}, true},
		"driver":      {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Driver = "e" }, true},
		"user":        {func(j *api.Job) { j.TaskGroups[0].Tasks[0].User = "u" }, true},
		"artifacts":   {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Artifacts = []*api.TaskArtifact{{}} }, true},
		"vault":       {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Vault = &api.Vault{} }, true},
		"task consul": {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Consul = &api.Consul{Namespace: "n"} }, true},
		"empty consul": {func(j *api.Job) {
			j.TaskGroups[0].Consul, j.TaskGroups[0].Tasks[0].Consul = &api.Consul{}, &api.Consul{Cluster: "default"}
		}, false},
		"consul cluster": {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Consul = &api.Consul{Cluster: "c"} }, true},
		"default identity": {func(j *api.Job) {
			j.TaskGroups[0].Tasks[0].Identity = &api.WorkloadIdentity{Name: "default", Audience: []string{"nomadproject.io"}}
		}, false},
		"templates":     {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Templates = []*api.Template{{}} }, true},
		"identity":      {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Identity = &api.WorkloadIdentity{Env: true} }, true},
		"identities":    {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Identities = []*api.WorkloadIdentity{{}} }, true},
		"group meta":    {func(j *api.Job) { j.TaskGroups[0].Meta = map[string]string{"a": "b"} }, true},
		"task meta":     {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Meta = map[string]string{"a": "b"} }, true},
		"cores":         {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.Cores = 2 }, true},
		"memory":        {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = 2 }, true},
		"memory_max":    {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = 2 }, true},
		"secrets size":  {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.SecretsMB = 2 }, true},
		"devices":       {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.Devices = []*api.RequestedDevice{{}} }, true},
		"numa":          {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.NUMA = &api.NUMAResource{} }, true},
		"task network":  {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.Networks = []*api.NetworkResource{{}} }, true},
		"kill signal":   {func(j *api.Job) { j.TaskGroups[0].Tasks[0].KillSignal = "SIGINT" }, false},
		"leader":        {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Leader = true }, false},
		"delay":         {func(j *api.Job) { j.TaskGroups[0].Tasks[0].ShutdownDelay = 9 }, false},
		"task schedule": {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Schedule = &api.TaskSchedule{} }, false},
		"lifecycle":     {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Lifecycle = &api.TaskLifecycle{} }, false},
		"actions":       {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Actions = []*api.Action{{}} }, false},
		"volume mount":  {func(j *api.Job) { j.TaskGroups[0].Tasks[0].VolumeMounts = []*api.VolumeMount{{Volume: "v"}} }, true},
	} {
		if got := reconcile.Destructive(job(func(*api.Job) {}), job(c.change), "g"); got != c.want {
			t.Errorf("%s: destructive %v", name, got)
		}
	}
}

// A job that was read from JSON is compared with one that the servers keep.
func TestEncodingsAreNoReasonToReplace(t *testing.T) {
	job := func(args []string, number any) *api.Job {
		return &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{
			Name: "t", Config: map[string]any{"n": number},
			Templates: []*api.Template{{ChangeScript: &api.ChangeScript{Args: args}}},
		}}}}}
	}
	if reconcile.Destructive(job(nil, 1.0), job([]string{}, int64(1)), "g") {
		t.Error("nil and empty, or two forms of a number, differ")
	}
	if !reconcile.Destructive(job(nil, 1.0), job(nil, 1.5), "g") {
		t.Error("numbers do not count")
	}
}

func TestPortsAreComparedButForCollisions(t *testing.T) {
	job := func(p api.Port) *api.Job {
		return &api.Job{TaskGroups: []*api.TaskGroup{{Name: "g", Networks: []*api.NetworkResource{{Mode: "host", ReservedPorts: []api.Port{p}}}}}}
	}
	for _, c := range []struct {
		port api.Port
		want bool
	}{
		{api.Port{Label: "s", Value: 99, IgnoreCollision: true}, false},
		{api.Port{Label: "s", Value: 98}, true},
		{api.Port{Label: "t", Value: 99}, true},
		{api.Port{Label: "s", Value: 99, To: 1}, true},
		{api.Port{Label: "s", Value: 99, HostNetwork: "h"}, true},
	} {
		before := job(api.Port{Label: "s", Value: 99})
		if got := reconcile.Destructive(before, job(c.port), "g"); got != c.want {
			t.Errorf("%+v: destructive %v", c.port, got)
		}
		if before.TaskGroups[0].Networks[0].ReservedPorts[0].IgnoreCollision {
			t.Error("the job was changed")
		}
	}
}
