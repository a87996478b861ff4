package scheduler_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func TestSystemRunsOnEveryEligibleNode(t *testing.T) {
	c := newCluster(t)
	c.nodes(3)
	c.node("other-dc", func(n *api.Node) { n.Datacenter = "dc2" })
	c.node("no-driver", func(n *api.Node) { n.Drivers, n.Attributes = nil, nil })
	j := job("s", api.JobTypeSystem, 1, func(j *api.Job) { j.Datacenters = []string{"dc1"} })
	c.register(j)
	o := c.run(j)
	if len(placed(o)) != 3 || len(o.Failed) != 0 {
		t.Fatalf("placed %d, failed %v", len(placed(o)), o.Failed)
	}
	for _, a := range placed(o) {
		if a.Name != "s.g[0]" {
			t.Fatalf("name %s", a.Name)
		}
	}
	c.setRunning("s")
	c.node("late")
	if o = c.run(j); len(placed(o)) != 1 {
		t.Fatalf("new node: placed %d", len(placed(o)))
	}
	c.node("late", func(n *api.Node) { n.Status = api.NodeStatusDown })
	c.node("n0", func(n *api.Node) { n.SchedulingEligibility = api.NodeSchedulingIneligible })
	if o = c.run(j); len(stopped(o)) != 1 || len(placed(o)) != 0 {
		t.Fatalf("stopped %d, placed %d", len(stopped(o)), len(placed(o)))
	}
}

func TestSystemReportsFullNodes(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	big := job("big", api.JobTypeService, 1, func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = 3900 })
	c.register(big)
	c.run(big)
	j := job("s", api.JobTypeSystem, 1)
	c.register(j)
	o := c.run(j)
	if len(placed(o)) != 1 || len(o.FullNodes) != 1 || o.Failed["g"].DimensionExhausted["cpu"] != 1 {
		t.Fatalf("placed %d, full %v, failed %+v", len(placed(o)), o.FullNodes, o.Failed["g"])
	}
}

func TestSysbatchRunsOncePerVersion(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	j := job("s", api.JobTypeSysbatch, 1)
	c.register(j)
	c.run(j)
	c.each("s", func(a *api.Allocation) { a.ClientStatus = api.AllocClientStatusComplete })
	if o := c.run(j); !o.Empty() {
		t.Fatal("done work was repeated")
	}
	j = job("s", api.JobTypeSysbatch, 1, func(j *api.Job) { j.TaskGroups[0].Tasks[0].User = "x" })
	c.register(j)
	if o := c.run(j); len(placed(o)) != 2 {
		t.Fatalf("new version placed %d", len(placed(o)))
	}
}

func TestFailingSystemJobIsTriedAgainLaterAndLater(t *testing.T) {
	c := newCluster(t)
	c.nodes(1)
	j := job("s", api.JobTypeSystem, 1)
	c.register(j)
	c.run(j)
	for attempt, delay := range []time.Duration{5 * time.Second, 10 * time.Second} {
		c.each("s", func(a *api.Allocation) {
			a.ClientStatus, a.TaskStates = api.AllocClientStatusFailed, map[string]*api.TaskState{"t": {FinishedAt: c.now}}
		})
		o := c.run(j)
		if len(placed(o)) != 0 || len(o.FollowUps) != 1 || !o.FollowUps[0].WaitUntil.Equal(c.now.Add(delay)) {
			t.Fatalf("attempt %d: placed %d, follow-ups %+v", attempt, len(placed(o)), o.FollowUps)
		}
		if again := c.run(j); !again.Empty() || len(again.FollowUps) != 0 {
			t.Fatalf("attempt %d: a second follow-up", attempt)
		}
		c.now = o.FollowUps[0].WaitUntil
		if o = c.run(j, func(e *api.Evaluation) { e.ID = o.FollowUps[0].ID }); len(placed(o)) != 1 {
			t.Fatalf("attempt %d: placed %d", attempt, len(placed(o)))
		}
	}
	c.each("s", func(a *api.Allocation) { a.ClientStatus = api.AllocClientStatusFailed })
	j = job("s", api.JobTypeSystem, 1, func(j *api.Job) { j.TaskGroups[0].Tasks[0].User = "x" })
	c.register(j)
	if o := c.run(j); len(placed(o)) != 1 {
		t.Fatalf("new version placed %d", len(placed(o)))
	}
}

func TestSystemCountZeroIsNone(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	j := job("s", api.JobTypeSystem, 1)
	c.register(j)
	c.run(j)
	c.setRunning("s")
	none := job("s", api.JobTypeSystem, 0, rolling)
	c.register(none)
	o := c.run(none)
	if len(stopped(o)) != 2 || len(placed(o)) != 0 || o.Plan.Deployment != nil {
		t.Errorf("stopped %d, placed %d, deployment %v", len(stopped(o)), len(placed(o)), o.Plan.Deployment)
	}
	if n := o.Plan.Annotations.DesiredTGUpdates["g"]; n == nil || n.Stop != 2 {
		t.Errorf("desired updates %+v", n)
	}
	fresh := job("f", api.JobTypeSystem, 0)
	c.register(fresh)
	if o := c.run(fresh); len(placed(o)) != 0 {
		t.Errorf("new job: placed %d", len(placed(o)))
	}
}

func rolling(j *api.Job) {
	j.TaskGroups[0].Update = &api.UpdateStrategy{MaxParallel: 1, ProgressDeadline: time.Hour}
}

func TestSystemUpdateLeavesNoOldVersionOnIneligibleNodes(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	j := job("s", api.JobTypeSystem, 1)
	c.register(j)
	c.run(j)
	c.setRunning("s")
	c.node("n0", func(n *api.Node) { n.SchedulingEligibility = api.NodeSchedulingIneligible })
	if o := c.run(j); !o.Empty() {
		t.Fatalf("an allocation went although the job is the same: stopped %d", len(stopped(o)))
	}
	same := job("s", api.JobTypeSystem, 1, func(j *api.Job) { j.Priority = 60 })
	c.register(same)
	if o := c.run(same); len(stopped(o)) != 0 {
		t.Errorf("a change in place stopped %d", len(stopped(o)))
	}
	next := job("s", api.JobTypeSystem, 1, func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"a": "b"} })
	c.register(next)
	if o := c.run(next); len(stopped(o)) != 2 || len(placed(o)) != 1 {
		t.Errorf("stopped %d, placed %d", len(stopped(o)), len(placed(o)))
	}
}

func TestFinishedSysbatchWorkIsRepeatedOnlyWhenItChanged(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	step := func(what string, want int, change func(*api.Job)) {
		t.Helper()
		j := job("s", api.JobTypeSysbatch, 1, change)
		c.register(j)
		if o := c.run(j); len(placed(o)) != want {
			t.Errorf("%s: placed %d, want %d", what, len(placed(o)), want)
		}
		c.each("s", ended)
	}
	echo := func(v string) func(*api.Job) {
		return func(j *api.Job) { j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": v} }
	}
	step("new", 2, echo("a"))
	step("another priority", 0, func(j *api.Job) { echo("a")(j); j.Priority = 60 })
	step("another command", 2, echo("b"))
	step("the first command again", 2, echo("a"))
	c.write(func(tx *state.Txn) { tx.DeleteJob("default", "s") })
	step("a new job of that name", 2, echo("a"))
}

func TestADryRunSaysWhyASystemJobRunsNowhere(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	j := job("s", api.JobTypeSystem, 1, func(j *api.Job) {
		j.Constraints = []*api.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: "plan9"}}
	})
	c.register(j)
	if o := c.plan(j); len(o.Failed) != 0 {
		t.Errorf("failed %v", o.Failed)
	}
	o := c.plan(j, func(e *api.Evaluation) { e.AnnotatePlan = true })
	if m := o.Failed["g"]; m == nil || m.ConstraintFiltered["${attr.kernel.name} = plan9"] != 2 {
		t.Errorf("failed %+v", m)
	}
	c.node("plan9", func(n *api.Node) { n.Attributes["kernel.name"] = "plan9" })
	if o := c.plan(j, func(e *api.Evaluation) { e.AnnotatePlan = true }); len(o.Failed) != 0 {
		t.Errorf("failed %v", o.Failed)
	}
}

// A system job whose task ends well again and again rests like one that fails.
func TestSystemJobThatEndsWellIsNotPlacedInALoop(t *testing.T) {
	c := newCluster(t)
	c.nodes(1)
	j := job("j", api.JobTypeSystem, 1, func(j *api.Job) { j.TaskGroups[0].RestartPolicy = &api.RestartPolicy{Mode: "fail"} })
	c.register(j)
	n := 0
	for range 20 { // each end is an evaluation
		n += len(placed(c.run(j)))
		c.each("j", func(a *api.Allocation) { ended(a); a.TaskStates["t"].FinishedAt = c.now })
	}
	if n > 3 {
		t.Errorf("%d allocations at one moment", n)
	}
}

// What looks at a system job when its volume has another topology is the entry that says so; here it is placed by it.
func TestSystemJobComesToWhereItsVolumeCanBeUsedNow(t *testing.T) {
	for _, kind := range []string{api.JobTypeSystem, api.JobTypeSysbatch} {
		c := newCluster(t)
		c.node("a", plugin(10, map[string]string{"zone": "a"}))
		c.node("b", plugin(10, map[string]string{"zone": "b"}))
		in := func(zone string) func(*api.Volume) {
			return func(v *api.Volume) {
				v.Provision.Topologies = []*api.Topology{{Segments: map[string]string{"zone": zone}}}
			}
		}
		j := job("s", kind, 1, withVolume("v", func(r *api.VolumeRequest) { r.AccessMode = string(api.AccessMultiNodeMultiWriter) }))
		c.register(j)
		for _, zone := range []string{"a", "b"} {
			c.volume("v", api.AccessMultiNodeMultiWriter, in(zone))
			o := c.run(j)
			if p := placed(o); len(p) != 1 || p[0].NodeID != zone || len(o.Failed) != 0 {
				t.Errorf("%s, zone %s: placed %+v, failed %+v", kind, zone, p, o.Failed)
			}
			c.setRunning("s")
		}
	}
}

// Work may be finished while it is moved: the plan leaves out what follows it, if it knows what that is.
func TestWhatFollowsStoppedWorkOnANodeNamesIt(t *testing.T) {
	for _, kind := range []string{api.JobTypeSysbatch, api.JobTypeSystem} {
		c := newCluster(t)
		c.nodes(1)
		j := job("s", kind, 1)
		c.register(j)
		first := placed(c.run(j))[0]
		c.each("s", func(a *api.Allocation) {
			a.ClientStatus, a.DesiredTransition.Migrate = api.AllocClientStatusRunning, true
		})
		if next := placed(c.run(j)); len(next) != 1 || next[0].PreviousAllocation != first.ID {
			t.Errorf("%s: %s is followed by %+v", kind, first.ID, next)
		}
	}
}
