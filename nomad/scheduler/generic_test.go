package scheduler_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func names(m map[string]*api.Allocation) []string { return slices.Sorted(maps.Keys(m)) }

func TestCountUpAndDownUsesLowestNames(t *testing.T) {
	c := newCluster(t)
	c.nodes(3)
	j := job("j", api.JobTypeService, 3)
	c.register(j)
	c.run(j)
	c.setRunning("j")
	if got := names(c.live("j")); !slices.Equal(got, []string{"j.g[0]", "j.g[1]", "j.g[2]"}) {
		t.Fatalf("placed %v", got)
	}
	j = job("j", api.JobTypeService, 1)
	c.register(j)
	o := c.run(j)
	if got := names(c.live("j")); !slices.Equal(got, []string{"j.g[0]"}) || len(stopped(o)) != 2 {
		t.Fatalf("after count 1: %v", got)
	}
	j = job("j", api.JobTypeService, 2)
	c.register(j)
	c.run(j)
	if got := names(c.live("j")); !slices.Equal(got, []string{"j.g[0]", "j.g[1]"}) {
		t.Fatalf("after count 2: %v", got)
	}
	if o := c.plan(j); !o.Empty() {
		t.Fatalf("nothing to do, but plan %+v", o.Plan)
	}
}

func TestNoRoomIsExplainedPerDimension(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	c.node("n2", func(n *api.Node) { n.Attributes["kernel.name"] = "plan9" })
	j := job("j", api.JobTypeService, 10, func(j *api.Job) {
		j.Constraints = []*api.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="}}
	})
	c.register(j)
	o := c.run(j)
	m := o.Failed["g"]
	if len(placed(o)) != 8 || m == nil || o.Queued["g"] != 2 {
		t.Fatalf("placed %d, queued %d, metric %+v", len(placed(o)), o.Queued["g"], m)
	}
	if m.DimensionExhausted["cpu"] != 1 || m.ConstraintFiltered["${attr.kernel.name} = linux"] != 1 || m.CoalescedFailures != 1 {
		t.Fatalf("metric %+v", m)
	}
}

func TestCrowdedNodesAreTakenLast(t *testing.T) {
	c := newCluster(t)
	c.nodes(3)
	first := job("first", api.JobTypeService, 1)
	c.register(first)
	best := placed(c.run(first))[0].NodeID
	memory, rows := &scheduler.RankingCache{}, c.fleet()
	schedule := func(count int, crowded ...string) map[string]int {
		j := job("second", api.JobTypeService, count)
		c.register(j)
		o := scheduler.Schedule(scheduler.Input{
			View: c.store.Read(), Fleet: rows, Now: c.now, NewID: c.id, Seed: 7, Contended: crowded, Rankings: memory,
			Eval: &api.Evaluation{ID: c.id(), Namespace: "default", JobID: "second", Type: api.JobTypeService, Priority: 50},
		})
		on := map[string]int{}
		for node, list := range o.Plan.NodeAllocation {
			on[node] = len(list)
		}
		return on
	}
	if on := schedule(1); on[best] != 1 {
		t.Fatalf("the fullest node is %s, placed on %v", best, on)
	}
	if on := schedule(1, best, "gone"); len(on) != 1 || on[best] != 0 {
		t.Errorf("%s is crowded, placed on %v", best, on)
	}
	if on := schedule(1); on[best] != 1 {
		t.Errorf("%s was crowded for one evaluation, placed on %v", best, on)
	}
	if on := schedule(20, best); len(on) != 3 || on[best] != 4 {
		t.Errorf("others have capacity for 16, placed on %v", on)
	}
}

// What is left of a job loses its places to the plans of others for as long as it wants the nodes that they want.
func TestWhoCameTooLateAgainAndAgainPlacesWhereOthersDoNot(t *testing.T) {
	for algorithm, others := range map[api.SchedulerAlgorithm]bool{api.SchedulerAlgorithmBinpack: true, api.SchedulerAlgorithmSpread: false} {
		c := newCluster(t)
		c.nodes(2)
		c.write(func(tx *state.Txn) { tx.PutSchedulerConfig(&api.SchedulerConfiguration{SchedulerAlgorithm: algorithm}) })
		first := job("first", api.JobTypeService, 1)
		c.register(first)
		full := placed(c.run(first))[0].NodeID
		second := job("second", api.JobTypeService, 1)
		c.register(second)
		memory := &scheduler.RankingCache{}
		for _, apart := range []bool{false, true, false} {
			o := scheduler.Schedule(scheduler.Input{
				View: c.store.Read(), Fleet: c.fleet(), Now: c.now, NewID: c.id, Seed: 7, OppositeAlgorithm: apart, Rankings: memory,
				Eval: &api.Evaluation{ID: c.id(), Namespace: "default", JobID: "second", Type: api.JobTypeService, Priority: 50},
			})
			if on := placed(o)[0].NodeID; (on == full) != (others != apart) {
				t.Errorf("%s, apart from others: %v: placed on %s, the fullest node is %s", algorithm, apart, on, full)
			}
		}
	}
}

func TestUpdateInPlaceOrDestructive(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	j := job("j", api.JobTypeService, 2)
	c.register(j)
	c.run(j)
	c.setRunning("j")
	before := c.live("j")

	j = job("j", api.JobTypeService, 2, func(j *api.Job) { j.TaskGroups[0].Tasks[0].KillTimeout = time.Minute })
	c.register(j)
	o := c.run(j)
	if len(stopped(o)) != 0 || len(placed(o)) != 0 || !slices.Equal(names(before), names(c.live("j"))) {
		t.Fatalf("in-place update stopped %d, placed %d", len(stopped(o)), len(placed(o)))
	}
	for name, a := range c.live("j") {
		if a.ID != before[name].ID || a.Job.Version != 1 {
			t.Fatalf("%s: %s version %d", name, a.ID, a.Job.Version)
		}
	}

	j = job("j", api.JobTypeService, 2, func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"A": "1"} })
	c.register(j)
	o = c.run(j)
	if len(stopped(o)) != 2 || len(placed(o)) != 2 {
		t.Fatalf("destructive update stopped %d, placed %d", len(stopped(o)), len(placed(o)))
	}
	for _, a := range placed(o) {
		if prev := before[a.Name]; prev == nil || a.PreviousAllocation != prev.ID {
			t.Fatalf("%s follows %q", a.Name, a.PreviousAllocation)
		}
	}
}

func TestFullNodeIsReusedByDestructiveUpdate(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	big := func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = 4000 }
	j := job("j", api.JobTypeService, 1, big)
	c.register(j)
	c.run(j)
	c.setRunning("j")
	j = job("j", api.JobTypeService, 1, big, func(j *api.Job) { j.TaskGroups[0].Tasks[0].User = "www" })
	c.register(j)
	if o := c.run(j); len(placed(o)) != 1 || len(stopped(o)) != 1 {
		t.Fatalf("placed %d, stopped %d: %+v", len(placed(o)), len(stopped(o)), o.Failed["g"])
	}
}

func TestUnplaceableUpdateKeepsTheOldAllocation(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	j := job("j", api.JobTypeService, 1)
	c.register(j)
	c.run(j)
	c.setRunning("j")
	j = job("j", api.JobTypeService, 1, func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = 9000 })
	c.register(j)
	o := c.run(j)
	if !o.Empty() || o.Failed["g"] == nil || len(c.live("j")) != 1 {
		t.Fatalf("plan %+v", o.Plan)
	}
}

func TestLostNodeIsReplacedAndDrainMigrates(t *testing.T) {
	c := newCluster(t)
	c.nodes(1)
	j := job("j", api.JobTypeService, 1)
	c.register(j)
	c.run(j)
	c.setRunning("j")
	c.node("other")
	c.node("n0", func(n *api.Node) { n.Status = api.NodeStatusDown })
	o := c.run(j)
	if s := stopped(o); len(s) != 1 || s[0].ClientStatus != api.AllocClientStatusLost {
		t.Fatalf("stops %+v", s)
	}
	if a := c.live("j")["j.g[0]"]; a == nil || a.NodeID != "other" || a.PreviousAllocation == "" {
		t.Fatalf("replacement %+v", a)
	}
	c.node("third")
	c.node("other", func(n *api.Node) { n.SchedulingEligibility = api.NodeSchedulingIneligible })
	c.each("j", func(a *api.Allocation) { a.DesiredTransition.Migrate = true })
	c.run(j)
	if a := c.live("j")["j.g[0]"]; a == nil || a.NodeID != "third" {
		t.Fatalf("migrated to %+v", a)
	}
}

// The capacity comes later: the successor knows whom it follows, and how often that was tried before.
func TestDrainedAllocationThatHadToWaitIsFollowed(t *testing.T) {
	c := newCluster(t)
	c.nodes(1)
	j := job("j", api.JobTypeService, 1)
	c.register(j)
	c.run(j)
	c.setRunning("j")
	old := c.live("j")["j.g[0]"]
	c.node("n0", func(n *api.Node) { n.SchedulingEligibility = api.NodeSchedulingIneligible })
	c.each("j", func(a *api.Allocation) {
		a.DesiredTransition.Migrate = true
		a.RescheduleTracker = &api.RescheduleTracker{Events: []*api.RescheduleEvent{{PrevAllocID: "before"}}}
	})
	if o := c.run(j); len(stopped(o)) != 1 || len(placed(o)) != 0 {
		t.Fatalf("without capacity: %+v", o.Plan)
	}
	c.node("other")
	if p := placed(c.run(j)); len(p) != 1 || p[0].PreviousAllocation != old.ID || p[0].RescheduleTracker == nil || len(p[0].RescheduleTracker.Events) != 1 {
		t.Fatalf("with capacity: %+v", p)
	}
}

func TestFailedAllocationIsRescheduledByItsPolicy(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	policy := func(j *api.Job) {
		j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{
			Attempts: 2, Interval: time.Hour, Delay: 30 * time.Second, DelayFunction: "exponential", MaxDelay: time.Hour,
		}
	}
	j := job("j", api.JobTypeService, 1, policy)
	c.register(j)
	c.run(j)
	for attempt, delay := range []time.Duration{30 * time.Second, time.Minute} {
		failedOn := c.live("j")["j.g[0]"].NodeID
		c.each("j", func(a *api.Allocation) {
			a.ClientStatus = api.AllocClientStatusFailed
			a.TaskStates = map[string]*api.TaskState{"t": {State: "dead", Failed: true, FinishedAt: c.now}}
		})
		o := c.run(j)
		if len(o.FollowUps) != 1 || !o.FollowUps[0].WaitUntil.Equal(c.now.Add(delay)) || len(placed(o)) != 0 {
			t.Fatalf("attempt %d: follow-ups %+v", attempt, o.FollowUps)
		}
		if again := c.plan(j); !again.Empty() || len(again.FollowUps) != 0 {
			t.Fatalf("attempt %d: a second follow-up", attempt)
		}
		c.now = o.FollowUps[0].WaitUntil
		o = c.run(j, func(e *api.Evaluation) { e.ID = o.FollowUps[0].ID })
		if p := placed(o); len(p) != 1 || p[0].NodeID == failedOn && attempt == 0 || len(p[0].RescheduleTracker.Events) != attempt+1 {
			t.Fatalf("attempt %d placed %+v", attempt, p)
		}
	}
	c.each("j", func(a *api.Allocation) { a.ClientStatus = api.AllocClientStatusFailed; a.ModifyTime = c.now.UnixNano() })
	if o := c.run(j); !o.Empty() || len(o.FollowUps) != 0 {
		t.Fatal("a third attempt")
	}
}

func TestBatchIsNotRunAgainWhenItSucceeded(t *testing.T) {
	c := newCluster(t)
	c.nodes(1)
	j := job("j", api.JobTypeBatch, 2)
	c.register(j)
	c.run(j)
	c.each("j", func(a *api.Allocation) {
		a.ClientStatus = api.AllocClientStatusComplete
		a.TaskStates = map[string]*api.TaskState{"t": {State: "dead"}}
	})
	if o := c.run(j); !o.Empty() {
		t.Fatal("done work was repeated")
	}
	j = job("j", api.JobTypeBatch, 2, func(j *api.Job) { j.TaskGroups[0].Tasks[0].User = "www" })
	c.register(j)
	if o := c.run(j); len(placed(o)) != 2 {
		t.Fatalf("new version placed %d", len(placed(o)))
	}
}

func TestStoppedAndRemovedGroupsEnd(t *testing.T) {
	c := newCluster(t)
	c.nodes(1)
	j := job("j", api.JobTypeService, 2)
	c.register(j)
	c.run(j)
	c.write(func(tx *state.Txn) { tx.DeleteJob("default", "j") })
	o := c.run(j)
	if len(stopped(o)) != 2 || len(c.live("j")) != 0 || len(o.Failed) != 0 {
		t.Fatalf("stopped %d", len(stopped(o)))
	}
}

func TestDistinctHostsAndProperty(t *testing.T) {
	c := newCluster(t)
	for i, rack := range []string{"a", "a", "b"} {
		c.node(string(rune('x'+i)), func(n *api.Node) { n.Meta = map[string]string{"rack": rack} })
	}
	j := job("j", api.JobTypeService, 4, func(j *api.Job) {
		j.Constraints = []*api.Constraint{{Operand: api.ConstraintDistinctHosts}}
	})
	c.register(j)
	if o := c.run(j); len(placed(o)) != 3 || o.Failed["g"].ConstraintFiltered["distinct_hosts"] != 3 {
		t.Fatalf("placed %d: %+v", len(placed(o)), o.Failed["g"])
	}
	k := job("k", api.JobTypeService, 4, func(j *api.Job) {
		j.TaskGroups[0].Constraints = []*api.Constraint{{LTarget: "${meta.rack}", Operand: api.ConstraintDistinctProperty}}
	})
	c.register(k)
	if o := c.run(k); len(placed(o)) != 2 {
		t.Fatalf("placed %d", len(placed(o)))
	}
}

func TestPorts(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	j := job("j", api.JobTypeService, 3, func(j *api.Job) {
		j.TaskGroups[0].Networks = []*api.NetworkResource{{
			ReservedPorts: []api.Port{{Label: "http", Value: 8080}},
			DynamicPorts:  []api.Port{{Label: "a", To: -1}, {Label: "b", To: 90}},
		}}
	})
	c.register(j)
	o := c.run(j)
	if len(placed(o)) != 2 || o.Failed["g"].DimensionExhausted["network: reserved port collision http=8080"] != 2 {
		t.Fatalf("placed %d: %+v", len(placed(o)), o.Failed["g"])
	}
	for _, a := range placed(o) {
		p := a.AllocatedResources.Shared.Ports
		if len(p) != 3 || p[0].Value != 8080 || p[1].Value < 20000 || p[1].To != p[1].Value || p[2].Value == p[1].Value || p[2].To != 90 || p[0].HostIP != "10.0.0.1" {
			t.Fatalf("ports %+v", p)
		}
	}
}

func TestSpreadAndAffinity(t *testing.T) {
	c := newCluster(t)
	for i := range 8 {
		c.node(string(rune('a'+i)), func(n *api.Node) {
			n.Meta = map[string]string{"rack": string(rune('0' + i%4)), "ssd": map[bool]string{true: "yes"}[i < 2]}
		})
	}
	j := job("j", api.JobTypeService, 8, func(j *api.Job) {
		j.Spreads = []*api.Spread{{Attribute: "${meta.rack}", Weight: 100}}
	})
	c.register(j)
	per := map[string]int{}
	for _, a := range placed(c.run(j)) {
		per[c.store.Read().Node(a.NodeID).Meta["rack"]]++
	}
	for rack, n := range per {
		if n != 2 {
			t.Fatalf("rack %s has %d of %v", rack, n, per)
		}
	}
	k := job("k", api.JobTypeService, 2, func(j *api.Job) {
		j.Affinities = []*api.Affinity{{LTarget: "${meta.ssd}", RTarget: "yes", Operand: "=", Weight: 100}}
	})
	c.register(k)
	for _, a := range placed(c.run(k)) {
		if c.store.Read().Node(a.NodeID).Meta["ssd"] != "yes" {
			t.Fatalf("placed on %s", a.NodeID)
		}
	}
}

func TestAStoppedJobQueuesNothing(t *testing.T) {
	for _, kind := range []string{api.JobTypeService, api.JobTypeSystem} {
		c := newCluster(t)
		c.nodes(1)
		j := job("q", kind, 3, func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = 5000 })
		c.register(j)
		if o := c.run(j); o.Queued["g"] == 0 {
			t.Fatalf("%s: queued %v", kind, o.Queued)
		}
		off := job("q", kind, 3, func(j *api.Job) { j.Stop = true })
		c.register(off)
		if n, known := c.run(off).Queued["g"]; !known || n != 0 {
			t.Errorf("%s: queued %d, said %v", kind, n, known)
		}
	}
}

func TestDesiredUpdatesOfAStoppedJob(t *testing.T) {
	for _, kind := range []string{api.JobTypeService, api.JobTypeSystem} {
		c := newCluster(t)
		c.nodes(1)
		j := job("q", kind, 1)
		c.register(j)
		c.run(j)
		off := job("q", kind, 1, func(j *api.Job) { j.Stop = true })
		c.register(off)
		if n := c.run(off).Plan.Annotations.DesiredTGUpdates["g"]; n == nil || n.Stop != 1 {
			t.Errorf("%s: %+v", kind, n)
		}
	}
}

// An update of a job with a sticky disk stays on the node of the data, although another node is better.
func TestStickyDiskStaysOnItsNode(t *testing.T) {
	t.Parallel()
	for _, sticky := range []bool{false, true} {
		c := newCluster(t)
		c.nodes(4)
		with := func(j *api.Job) {
			j.TaskGroups[0].EphemeralDisk = &api.EphemeralDisk{SizeMB: 10, Sticky: sticky}
			j.TaskGroups[0].Affinities = []*api.Affinity{{LTarget: "${node.unique.name}", RTarget: "n2", Operand: "=", Weight: 100}}
		}
		j := job("j", api.JobTypeService, 1, with)
		c.register(j)
		c.run(j)
		c.setRunning("j")
		j = job("j", api.JobTypeService, 1, with, func(j *api.Job) {
			j.TaskGroups[0].Affinities[0].RTarget = "n3"
			j.TaskGroups[0].Tasks[0].Env = map[string]string{"new": "1"}
		})
		c.register(j)
		want := "n3"
		if sticky {
			want = "n2"
		}
		o := c.run(j)
		if list := placed(o); len(list) != 1 || list[0].NodeID != want || list[0].PreviousAllocation == "" {
			t.Errorf("sticky %v: placed %+v, want on %s", sticky, list, want)
		}
	}
}
