package drain_test

import (
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes/drain"
)

func job(kind string, count, parallel int, pluginJob bool) *api.Job {
	task := &api.Task{Name: "t"}
	if pluginJob {
		task.CSIPluginConfig = &api.CSIPluginConfig{ID: "p"}
	}
	return &api.Job{ID: kind, Namespace: "default", Type: kind, TaskGroups: []*api.TaskGroup{{
		Name: "g", Count: count, Migrate: &api.MigrateStrategy{MaxParallel: parallel}, Tasks: []*api.Task{task},
	}}}
}

func alloc(id, node string, j *api.Job) *api.Allocation {
	return &api.Allocation{
		ID: id, NodeID: node, Namespace: "default", JobID: j.ID, Job: j, TaskGroup: "g",
		DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusRunning,
	}
}

func view(spec api.DrainSpec, now time.Time, all ...*api.Allocation) drain.View {
	start := time.Unix(1000, 0)
	s := &api.DrainStrategy{DrainSpec: spec, StartedAt: start}
	if spec.Deadline > 0 {
		s.ForceDeadline = start.Add(spec.Deadline)
	}
	v := drain.View{Node: &api.Node{ID: "n1", DrainStrategy: s}, Now: now}
	for _, a := range all {
		if a.NodeID == "n1" {
			v.Allocs = append(v.Allocs, a)
		}
	}
	v.Group = func(_, job, group string) []*api.Allocation {
		return slices.DeleteFunc(slices.Clone(all), func(a *api.Allocation) bool { return a.JobID != job || a.TaskGroup != group })
	}
	return v
}

func TestOrderOfADrain(t *testing.T) {
	t.Parallel()
	svc, bat, sys, plug := job("service", 3, 1, false), job("batch", 1, 1, false), job("system", 1, 1, false), job("system", 1, 1, true)
	plug.ID = "plugin"
	s1, s2, s3 := alloc("s1", "n1", svc), alloc("s2", "n1", svc), alloc("s3", "n2", svc)
	b, y, p := alloc("b", "n1", bat), alloc("y", "n1", sys), alloc("p", "n1", plug)
	all := []*api.Allocation{s1, s2, s3, b, y, p}
	now := time.Unix(1001, 0)
	spec := api.DrainSpec{Deadline: time.Hour}
	expect := func(what string, d drain.Decision, done bool, ids ...string) {
		t.Helper()
		if !slices.Equal(d.Migrate, ids) || d.Done != done {
			t.Fatalf("%s: %+v, want %v done %v", what, d, ids, done)
		}
	}
	d := drain.Next(view(spec, now, all...))
	expect("first one of the service", d, false, "s1")
	if !d.Wake.Equal(time.Unix(1000, 0).Add(time.Hour)) {
		t.Errorf("wake at %s", d.Wake)
	}
	s1.DesiredTransition.Migrate = true
	expect("the other waits", drain.Next(view(spec, now, all...)), false)
	s1.ClientStatus = api.AllocClientStatusComplete
	all = append(all, alloc("s4", "n2", svc))
	expect("its replacement runs", drain.Next(view(spec, now, all...)), false, "s2")
	s2.ClientStatus = api.AllocClientStatusComplete
	expect("batch work goes on", drain.Next(view(spec, now, all...)), false)
	expect("until the deadline", drain.Next(view(spec, now.Add(time.Hour), all...)), false, "b", "y")
	b.ClientStatus = api.AllocClientStatusComplete
	expect("system after the users", drain.Next(view(spec, now, all...)), false, "y")
	y.ClientStatus = api.AllocClientStatusComplete
	expect("plugins last", drain.Next(view(spec, now, all...)), false, "p")
	p.ClientStatus = api.AllocClientStatusComplete
	expect("over", drain.Next(view(spec, now, all...)), true)
}

func TestIgnoredSystemJobsDoNotHoldADrain(t *testing.T) {
	t.Parallel()
	sys := alloc("y", "n1", job("system", 1, 1, false))
	d := drain.Next(view(api.DrainSpec{Deadline: -1, IgnoreSystemJobs: true}, time.Unix(1001, 0), sys))
	if !d.Done || len(d.Migrate) != 0 {
		t.Fatalf("%+v", d)
	}
}

func TestForcedDrainLeavesPluginsForLast(t *testing.T) {
	t.Parallel()
	plug := job("service", 1, 1, true)
	plug.ID = "plugin"
	s, p := alloc("s", "n1", job("service", 1, 1, false)), alloc("p", "n1", plug)
	d := drain.Next(view(api.DrainSpec{Deadline: -1}, time.Unix(1001, 0), s, p))
	if !slices.Equal(d.Migrate, []string{"s"}) || d.Done {
		t.Fatalf("%+v", d)
	}
}

func TestPluginsWaitForTheirVolumes(t *testing.T) {
	t.Parallel()
	plug := alloc("p", "n1", job("system", 1, 1, true))
	for _, c := range []struct {
		what    string
		spec    api.DrainSpec
		now     int64
		mounted bool
		goes    bool
	}{
		{"mounted", api.DrainSpec{Deadline: time.Hour}, 1001, true, false},
		{"unmounted", api.DrainSpec{Deadline: time.Hour}, 1001, false, true},
		{"mounted and forced", api.DrainSpec{Deadline: -1}, 1001, true, false},
		{"mounted after the deadline", api.DrainSpec{Deadline: time.Second}, 5000, true, false},
		{"unmounted after the deadline", api.DrainSpec{Deadline: time.Second}, 5000, false, true},
		{"mounted long after it was forced", api.DrainSpec{Deadline: -1}, 5000, true, false},
	} {
		v := view(c.spec, time.Unix(c.now, 0), plug)
		v.Mounted = c.mounted
		if d := drain.Next(v); slices.Contains(d.Migrate, "p") != c.goes || d.Done {
			t.Errorf("%s: %+v", c.what, d)
		}
	}
}

func TestDrainIsNotOverWhileVolumesAreOnTheNode(t *testing.T) {
	t.Parallel()
	user, plug := alloc("s", "n1", job("service", 1, 1, false)), alloc("p", "n1", job("system", 1, 1, true))
	user.ClientStatus, user.DesiredStatus = api.AllocClientStatusComplete, api.AllocDesiredStatusStop
	for _, spec := range []api.DrainSpec{
		{Deadline: time.Hour, IgnoreSystemJobs: true}, {Deadline: time.Second}, {Deadline: -1, IgnoreSystemJobs: true}, {Deadline: -1}, {},
	} {
		for _, at := range []int64{1001, 2000} {
			v := view(spec, time.Unix(at, 0), user, plug)
			v.Mounted = true
			if d := drain.Next(v); d.Done || !d.Held {
				t.Errorf("%+v at %d: %+v", spec, at, d)
			}
			if spec.IgnoreSystemJobs {
				v.Mounted = false
				if d := drain.Next(v); !d.Done || d.Held {
					t.Errorf("%+v at %d, nothing is mounted: %+v", spec, at, d)
				}
			}
		}
	}
	user.ClientStatus = api.AllocClientStatusRunning
	v := view(api.DrainSpec{Deadline: time.Hour}, time.Unix(1001, 0), user, plug)
	v.Mounted = true
	if d := drain.Next(v); d.Held {
		t.Errorf("it is an allocation that the drain waits for: %+v", d)
	}
}

func TestNextOneWaitsUntilTheReplacementIsHealthy(t *testing.T) {
	t.Parallel()
	svc := job("service", 2, 1, false)
	svc.TaskGroups[0].Migrate.MinHealthyTime = 10 * time.Second
	old, fresh := alloc("old", "n1", svc), alloc("fresh", "n2", svc)
	ran := time.Unix(1005, 0)
	fresh.CreateTime, fresh.ModifyTime = time.Unix(1002, 0).UnixNano(), ran.UnixNano()
	spec := api.DrainSpec{Deadline: time.Hour}
	d := drain.Next(view(spec, ran.Add(9*time.Second), old, fresh))
	if len(d.Migrate) != 0 || d.Done || !d.Wake.Equal(ran.Add(10*time.Second)) {
		t.Fatalf("one that runs for 9 s: %+v", d)
	}
	if d := drain.Next(view(spec, ran.Add(10*time.Second), old, fresh)); !slices.Equal(d.Migrate, []string{"old"}) {
		t.Fatalf("one that runs for 10 s: %+v", d)
	}
	yes, no := true, false
	fresh.DeploymentStatus = &api.AllocDeploymentStatus{Healthy: &no}
	if d := drain.Next(view(spec, ran.Add(time.Minute), old, fresh)); len(d.Migrate) != 0 {
		t.Fatalf("one that is found unhealthy: %+v", d)
	}
	fresh.DeploymentStatus.Healthy = &yes
	if d := drain.Next(view(spec, ran, old, fresh)); !slices.Equal(d.Migrate, []string{"old"}) {
		t.Fatalf("one that is found healthy: %+v", d)
	}
}

// Whoever shares a volume that one node may use goes with the others: its replacement gets the volume elsewhere when the
// last of them is gone, so that waiting for one to be healthy there would last until the deadline, or for ever.
func TestGroupThatSharesAVolumeOfOneNodeMovesTogether(t *testing.T) {
	t.Parallel()
	for mode, together := range map[api.AccessMode]bool{
		api.AccessSingleNodeMulti: true, api.AccessMultiNodeMultiWriter: false, api.AccessMultiNodeReader: false,
	} {
		for _, perAlloc := range []bool{false, true} {
			svc := job("service", 3, 1, false)
			svc.TaskGroups[0].Volumes = map[string]*api.VolumeRequest{"data": {
				Type: api.VolumeTypeCSI, Source: "v", PerAlloc: perAlloc, AccessMode: string(mode), AttachmentMode: string(api.AttachmentFileSystem),
			}}
			all := []*api.Allocation{alloc("s1", "n1", svc), alloc("s2", "n1", svc), alloc("s3", "n1", svc)}
			want := []string{"s1"}
			if together && !perAlloc {
				want = []string{"s1", "s2", "s3"}
			}
			if d := drain.Next(view(api.DrainSpec{}, time.Unix(1001, 0), all...)); !slices.Equal(d.Migrate, want) {
				t.Errorf("%s, per_alloc %t: %v go, want %v", mode, perAlloc, d.Migrate, want)
			}
			if len(want) == 1 {
				continue
			}
			all[0].ClientStatus, all[0].DesiredStatus = api.AllocClientStatusComplete, api.AllocDesiredStatusStop
			if d := drain.Next(view(api.DrainSpec{}, time.Unix(1001, 0), all...)); !slices.Equal(d.Migrate, want[1:]) {
				t.Errorf("%s, one of them is gone: %v go, want %v", mode, d.Migrate, want[1:])
			}
		}
	}
}

// Nobody has a volume of one node elsewhere while batch work uses it here: whoever shares it goes on until that goes.
func TestServiceStaysWhileBatchWorkKeepsItsVolumeOnTheNode(t *testing.T) {
	t.Parallel()
	now, deadline := time.Unix(1001, 0), time.Unix(1000, 0).Add(time.Hour)
	for name, c := range map[string]struct {
		source string
		mode   api.AccessMode
		want   []string
	}{
		"the same":      {"v", api.AccessSingleNodeMulti, nil},
		"another":       {"w", api.AccessSingleNodeMulti, []string{"s1", "s2"}},
		"of many nodes": {"v", api.AccessMultiNodeMultiWriter, []string{"s1", "s2"}},
	} {
		uses := func(kind, source string, mode api.AccessMode) *api.Job {
			j := job(kind, 2, 2, false)
			j.TaskGroups[0].Volumes = map[string]*api.VolumeRequest{"data": {Type: api.VolumeTypeCSI, Source: source, AccessMode: string(mode)}}
			return j
		}
		svc, bat := uses("service", c.source, c.mode), uses("batch", "v", c.mode)
		s1, s2, b := alloc("s1", "n1", svc), alloc("s2", "n1", svc), alloc("b", "n1", bat)
		spec := api.DrainSpec{Deadline: time.Hour}
		if d := drain.Next(view(spec, now, s1, s2, b)); !slices.Equal(d.Migrate, c.want) {
			t.Errorf("%s: %v go, want %v", name, d.Migrate, c.want)
		}
		if d := drain.Next(view(spec, deadline, s1, s2, b)); !slices.Equal(d.Migrate, []string{"s1", "s2", "b"}) {
			t.Errorf("%s: %v go at the deadline", name, d.Migrate)
		}
		b.ClientStatus = api.AllocClientStatusComplete
		if d := drain.Next(view(spec, now, s1, s2, b)); !slices.Equal(d.Migrate, []string{"s1", "s2"}) {
			t.Errorf("%s: %v go when the work is done", name, d.Migrate)
		}
	}
}
