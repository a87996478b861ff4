package plan_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
)

type world struct {
	t       *testing.T
	store   *state.Store
	raft    *fsm.Local
	applier *plan.Applier
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := state.New()
	r := fsm.NewRegistry(plan.Commands)
	w := &world{t: t, store: s, raft: fsm.NewLocal(s, r)}
	fleets := plan.NewFleetCache(s)
	w.applier = plan.NewApplier(plan.Config{State: s, Raft: w.raft, FleetCache: fleets, Log: hclog.NewNullLogger()})
	w.put(func(tx *state.Txn) {
		for _, id := range []string{"n1", "n2"} {
			tx.PutNode(&api.Node{
				ID: id, Status: api.NodeStatusReady, SchedulingEligibility: api.NodeSchedulingEligible,
				CSINodePlugins: map[string]*api.CSIInfo{"p": {PluginID: "p", Healthy: true, NodeInfo: &api.CSINodeInfo{ID: id}}},
				NodeResources:  &api.NodeResources{Cpu: api.NodeCpuResources{CpuShares: 1000}, Memory: api.NodeMemoryResources{MemoryMB: 1000}},
			})
		}
		tx.PutVolume(&api.Volume{
			VolumeSpec: api.VolumeSpec{ID: "v", Namespace: "default", PluginID: "p", RequestedCapabilities: []*api.VolumeCapability{
				{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem},
			}},
			Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: "x"},
		})
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{fleets.Run, w.applier.Run} {
		running.Go(func() {
			if err := run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("run ended with %v", err)
			}
		})
	}
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

func (w *world) put(fn func(*state.Txn)) {
	tx := w.store.Write(w.store.Read().Index()+1, time.Unix(1_700_000_000, 0))
	fn(tx)
	tx.Commit()
}

func (w *world) job(id string, volume bool) *api.Job {
	j := &api.Job{ID: id, Namespace: "default", Type: api.JobTypeService, Priority: 50, TaskGroups: []*api.TaskGroup{{
		Name: "g", Count: 1, Tasks: []*api.Task{{Name: "t"}},
	}}}
	if volume {
		j.TaskGroups[0].Volumes = map[string]*api.VolumeRequest{"v": {
			Name: "v", Type: api.VolumeTypeCSI, Source: "v",
			AccessMode: string(api.AccessSingleNodeWriter), AttachmentMode: string(api.AttachmentFileSystem),
		}}
	}
	w.put(func(tx *state.Txn) { tx.PutJob(j) })
	return w.store.Read().Job("default", id)
}

func alloc(j *api.Job, id, node string, cpu int64) *api.Allocation {
	return &api.Allocation{
		ID: id, Name: j.ID + ".g[0]", Namespace: "default", JobID: j.ID, TaskGroup: "g", NodeID: node, EvalID: "e",
		DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusPending,
		AllocatedResources: &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{
			"t": {Cpu: api.AllocatedCpuResources{CpuShares: cpu}},
		}},
	}
}

func planOf(j *api.Job, stops []*api.Allocation, places ...*api.Allocation) *api.Plan {
	p := &api.Plan{EvalID: "e", Priority: 50, Job: j, NodeUpdate: map[string][]*api.Allocation{}, NodeAllocation: map[string][]*api.Allocation{}}
	for _, a := range places {
		p.NodeAllocation[a.NodeID] = append(p.NodeAllocation[a.NodeID], a)
	}
	for _, a := range stops {
		s := *a
		s.Job, s.DesiredStatus, s.DesiredDescription = nil, api.AllocDesiredStatusStop, "test"
		p.NodeUpdate[a.NodeID] = append(p.NodeUpdate[a.NodeID], &s)
	}
	return p
}

func (w *world) submit(p *api.Plan) *plan.Outcome {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	out, err := w.applier.Submit(ctx, plan.Submission{Plan: p, Evals: []*api.Evaluation{
		{ID: "e", Namespace: "default", JobID: "j", Status: api.EvalStatusComplete},
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func TestPlanIsCommittedWithItsEvaluation(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", false)
	if out := w.submit(planOf(j, nil, alloc(j, "a", "n1", 400))); !out.Whole || out.RefreshIndex != 0 {
		t.Fatalf("outcome %+v", out.PlanResult)
	}
	a := w.store.Read().Alloc("a")
	if a == nil || a.Job != j || a.CreateTime == 0 || a.AllocModifyIndex != a.ModifyIndex {
		t.Fatalf("allocation %+v", a)
	}
	if e := w.store.Read().Eval("e"); e == nil || e.Status != api.EvalStatusComplete {
		t.Fatalf("evaluation %+v", e)
	}
	next := alloc(j, "b", "n1", 800)
	next.PreviousAllocation = "a"
	if out := w.submit(planOf(j, []*api.Allocation{a}, next)); !out.Whole {
		t.Fatalf("outcome %+v", out.PlanResult)
	}
	if a = w.store.Read().Alloc("a"); a.DesiredStatus != api.AllocDesiredStatusStop || a.NextAllocation != "b" || a.DesiredDescription != "test" {
		t.Fatalf("predecessor %+v", a)
	}
}

// What is lost, or has to leave its node, is stopped also when its successor finds no capacity.
func TestWhatMustGoIsStoppedWithoutItsSuccessor(t *testing.T) {
	for name, goes := range map[string]func(*api.Allocation, *api.Node){
		"lost":             func(a *api.Allocation, _ *api.Node) { a.ClientStatus = api.AllocClientStatusLost },
		"drains":           func(a *api.Allocation, _ *api.Node) { a.DesiredTransition.Migrate = true },
		"lost its volumes": func(a *api.Allocation, n *api.Node) { n.StaleMounts = []*api.StaleMount{{AllocID: a.ID}} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			j := w.job("j", false)
			w.submit(planOf(j, nil, alloc(j, "full", "n1", 900), alloc(j, "old", "n2", 300)))
			old := *w.store.Read().Alloc("old")
			n := *w.store.Read().Node("n2")
			goes(&old, &n)
			w.put(func(tx *state.Txn) { tx.PutNode(&n) })
			if old.DesiredTransition.Migrate {
				w.put(func(tx *state.Txn) { tx.PutAlloc(&old) })
			}
			tooMuch := alloc(j, "new", "n1", 200)
			tooMuch.PreviousAllocation = "old"
			out := w.submit(planOf(j, []*api.Allocation{&old}, tooMuch))
			tx := w.store.Read()
			if out.Whole || out.Reasons["n1"] != "cpu" || tx.Alloc("new") != nil {
				t.Fatalf("outcome %+v", out.PlanResult)
			}
			if !tx.Alloc("old").ServerTerminal() {
				t.Error("it was kept")
			}
		})
	}
}

func TestNodeWithoutRoomIsLeftOutWithThePredecessorsStop(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", false)
	w.submit(planOf(j, nil, alloc(j, "full", "n1", 900), alloc(j, "old", "n2", 300)))
	old := w.store.Read().Alloc("old")
	tooMuch := alloc(j, "new", "n1", 200)
	tooMuch.PreviousAllocation = "old"
	w.put(func(tx *state.Txn) { tx.DeleteEval("e") })
	out := w.submit(planOf(j, []*api.Allocation{old}, tooMuch))
	if out.Whole || out.RefreshIndex == 0 || out.Reasons["n1"] != "cpu" {
		t.Fatalf("outcome %+v", out.PlanResult)
	}
	tx := w.store.Read()
	if tx.Alloc("new") != nil || tx.Alloc("old").ServerTerminal() || tx.Eval("e") != nil {
		t.Fatal("part of the refused plan was committed")
	}
	out = w.submit(planOf(j, nil, alloc(j, "c", "n1", 200), alloc(j, "d", "n2", 200)))
	if tx = w.store.Read(); out.Whole || tx.Alloc("c") != nil || tx.Alloc("d") == nil {
		t.Fatalf("outcome %+v", out.PlanResult)
	}
	all := planOf(j, nil, alloc(j, "f", "n1", 200), alloc(j, "g", "n2", 200))
	all.AllAtOnce = true
	if out = w.submit(all); out.Whole || w.store.Read().Alloc("g") != nil {
		t.Fatal("all_at_once was committed in part")
	}
}

// A predecessor that keeps running keeps its capacity: what the plan places there instead is refused.
func TestNodeOfAPredecessorThatStaysIsRefused(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", false)
	w.submit(planOf(j, nil, alloc(j, "full", "n1", 900), alloc(j, "old", "n2", 900)))
	old := w.store.Read().Alloc("old")
	tooMuch := alloc(j, "new", "n1", 200)
	tooMuch.PreviousAllocation = "old"
	out := w.submit(planOf(j, []*api.Allocation{old}, tooMuch, alloc(j, "instead", "n2", 900)))
	tx := w.store.Read()
	if out.Whole || out.Reasons["n2"] == "" || tx.Alloc("instead") != nil || tx.Alloc("old").ServerTerminal() {
		t.Fatalf("outcome %+v", out.PlanResult)
	}
}

// A refused node takes no volumes from the other nodes of the plan.
func TestRefusedNodeGivesItsClaimsBack(t *testing.T) {
	w := newWorld(t)
	w.put(func(tx *state.Txn) {
		n := *tx.Node("n2")
		n.CSINodePlugins = map[string]*api.CSIInfo{"p": {PluginID: "p", Healthy: true, NodeInfo: &api.CSINodeInfo{ID: "n2"}}}
		tx.PutNode(&n)
	})
	j := w.job("j", true)
	out := w.submit(planOf(j, nil, alloc(j, "user", "n1", 10), alloc(j, "large", "n1", 5000), alloc(j, "other", "n2", 10)))
	tx := w.store.Read()
	if out.Whole || tx.Alloc("user") != nil || tx.Alloc("other") == nil {
		t.Fatalf("outcome %+v", out.PlanResult)
	}
}

func TestUnusableNodeAndGoneJobAreRefused(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", false)
	w.put(func(tx *state.Txn) {
		n := *tx.Node("n1")
		n.Status = api.NodeStatusDown
		tx.PutNode(&n)
		n2 := *tx.Node("n2")
		n2.SchedulingEligibility = api.NodeSchedulingIneligible
		tx.PutNode(&n2)
	})
	out := w.submit(planOf(j, nil, alloc(j, "a", "n1", 1), alloc(j, "b", "n2", 1), alloc(j, "c", "nowhere", 1)))
	if len(out.RejectedNodes) != 3 || w.store.Read().Alloc("a") != nil {
		t.Fatalf("outcome %+v", out.PlanResult)
	}
	k := w.job("k", false)
	w.put(func(tx *state.Txn) {
		tx.DeleteJob("default", "k")
		n := *tx.Node("n1")
		n.Status = api.NodeStatusReady
		tx.PutNode(&n)
	})
	if out = w.submit(planOf(k, nil, alloc(k, "d", "n1", 1))); out.Whole || w.store.Read().Alloc("d") != nil {
		t.Fatalf("outcome %+v", out.PlanResult)
	}
}

func TestPortsAreGivenOnce(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", false)
	withPort := func(id string) *api.Allocation {
		a := alloc(j, id, "n1", 1)
		a.AllocatedResources.Shared.Ports = []api.PortMapping{{Label: "http", Value: 8080}}
		return a
	}
	w.submit(planOf(j, nil, withPort("a")))
	if out := w.submit(planOf(j, nil, withPort("b"))); out.Whole || !strings.Contains(out.Reasons["n1"], "port collision") {
		t.Fatalf("outcome %+v", out.PlanResult)
	}
}

// Two jobs race for one single-writer volume: the claims are taken in the raft entry of the plan.
func TestOnlyOneOfTwoPlansGetsAnExclusiveVolume(t *testing.T) {
	w := newWorld(t)
	var running sync.WaitGroup
	outcomes := make([]*plan.Outcome, 2)
	for i, id := range []string{"j", "k"} {
		j := w.job(id, true)
		running.Go(func() { outcomes[i] = w.submit(planOf(j, nil, alloc(j, id, "n"+string(rune('1'+i)), 1))) })
	}
	running.Wait()
	if outcomes[0].Whole == outcomes[1].Whole {
		t.Fatalf("outcomes %v and %v", outcomes[0].Reasons, outcomes[1].Reasons)
	}
	claims := 0
	for c := range w.store.Read().ClaimsByVolume("default", "v") {
		claims++
		if w.store.Read().Alloc(c.AllocID) == nil {
			t.Fatalf("claim %+v without allocation", c)
		}
	}
	if claims != 1 {
		t.Fatalf("%d claims", claims)
	}
}

func TestEmptyApplierRefusesAfterLeadership(t *testing.T) {
	s := state.New()
	a := plan.NewApplier(plan.Config{State: s, FleetCache: plan.NewFleetCache(s), Log: hclog.NewNullLogger()})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := a.Submit(ctx, plan.Submission{Plan: &api.Plan{}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v", err)
	}
}

// A plan takes an allocation away that has finished its work meanwhile: there is nothing to take away any more.
func TestFinishedWorkIsNotTakenAway(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", false)
	high := w.job("high", false)
	for id, take := range map[string]func(*api.Plan, *api.Allocation){
		"moved": func(p *api.Plan, a *api.Allocation) { p.NodeUpdate[a.NodeID] = []*api.Allocation{a} },
		"evicted": func(p *api.Plan, a *api.Allocation) {
			a.PreemptedByAllocation = "high"
			p.NodePreemptions = map[string][]*api.Allocation{a.NodeID: {a}}
		},
	} {
		a := alloc(j, id, "n1", 100)
		a.ClientStatus = api.AllocClientStatusComplete
		w.put(func(tx *state.Txn) { a.Job = j; tx.PutAlloc(a) })
		p := planOf(high, nil)
		gone := *a
		gone.Job, gone.DesiredStatus, gone.DesiredDescription = nil, api.AllocDesiredStatusStop, reconcile.Migrating
		take(p, &gone)
		w.submit(p)
		if got := w.store.Read().Alloc(id).DesiredStatus; got != api.AllocDesiredStatusRun {
			t.Errorf("%s: desired %s", id, got)
		}
	}
}

// Work that ended well while a plan was made that moves it, or gives it up, stays finished: nobody does it once more.
// What only its node ended, and what is of an older version, is done elsewhere.
func TestFinishedWorkIsNotMovedElsewhere(t *testing.T) {
	killed := []*api.TaskEvent{{Type: api.EventKilling}}
	for name, c := range map[string]struct {
		events  []*api.TaskEvent
		lost    bool
		version uint64
		again   bool
	}{
		"moved":               {},
		"given up":            {lost: true},
		"ended by its node":   {events: killed, again: true},
		"of an older version": {version: 1, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			j := w.job("j", false)
			batch := *j
			batch.Type = api.JobTypeBatch
			batch.TaskGroups = []*api.TaskGroup{{Name: "g", Count: 1, Disconnect: &api.DisconnectStrategy{StopOnClientAfter: time.Second}}}
			j = &batch
			w.put(func(tx *state.Txn) { tx.PutJob(j); j = tx.Job("default", "j") })
			w.submit(planOf(j, nil, alloc(j, "a", "n1", 100)))
			a := *w.store.Read().Alloc("a")
			if c.version > 0 {
				next := *j
				next.Version = c.version
				w.put(func(tx *state.Txn) { tx.PutJob(&next); j = tx.Job("default", "j") })
			}
			low := w.job("low", false)
			w.submit(planOf(low, nil, alloc(low, "victim", "n2", 950)))
			victim := *w.store.Read().Alloc("victim")
			victim.Job, victim.PreemptedByAllocation = nil, "b"
			next := alloc(j, "b", "n2", 100)
			next.PreviousAllocation = "a"
			p := planOf(j, []*api.Allocation{&a}, next)
			p.NodePreemptions = map[string][]*api.Allocation{"n2": {&victim}}
			if stop := p.NodeUpdate["n1"][0]; c.lost {
				stop.ClientStatus = api.AllocClientStatusLost
			} else {
				stop.DesiredDescription = reconcile.Migrating
			}
			w.put(func(tx *state.Txn) { // it ends before the plan comes
				done := *tx.Alloc("a")
				done.ClientStatus = api.AllocClientStatusComplete
				done.TaskStates = map[string]*api.TaskState{"t": {State: api.TaskStateDead, Events: c.events}}
				tx.PutAlloc(&done)
			})
			w.submit(p)
			if tx := w.store.Read(); (tx.Alloc("b") != nil) != c.again {
				t.Errorf("it runs once more: %v", !c.again)
			} else if !c.again && tx.Alloc("a").ServerTerminal() {
				t.Error("finished work was stopped")
			} else if (tx.Alloc("victim").DesiredStatus == api.AllocDesiredStatusEvict) != c.again {
				t.Errorf("the allocation in its way is to %s", tx.Alloc("victim").DesiredStatus)
			}
		})
	}
}

// What an older version had is restored while canaries wait, also when the version itself is kept no more.
func TestOlderVersionThatRunsIsPlacedThoughItIsForgotten(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", false)
	w.submit(planOf(j, nil, alloc(j, "a", "n1", 100)))
	old := w.store.Read().Alloc("a").Job
	w.put(func(tx *state.Txn) {
		next := *j
		next.Version = 7
		tx.PutJob(&next)
		tx.DeleteJobVersion("default", "j", old.Version)
	})
	b := alloc(j, "b", "n2", 100)
	b.Job = old
	out := w.submit(planOf(w.store.Read().Job("default", "j"), nil, b))
	if !out.Whole {
		t.Errorf("refused: %v", out.Reasons)
	}
}

// A node that takes nothing new still gets the plugin that unmounts what it has.
func TestPluginIsPlacedOnANodeThatNeedsItForItsVolumes(t *testing.T) {
	for _, c := range []struct {
		name    string
		mounted bool
		plugin  string
		whole   bool
	}{
		{"needed", true, "p", true},
		{"not needed", false, "p", false},
		{"another one", true, "q", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			j := *w.job("j", false)
			j.Type = api.JobTypeSystem
			j.TaskGroups = []*api.TaskGroup{{Name: "g", Count: 1, Tasks: []*api.Task{{Name: "t", CSIPluginConfig: &api.CSIPluginConfig{ID: c.plugin}}}}}
			w.put(func(tx *state.Txn) {
				tx.PutJob(&j)
				n := *tx.Node("n1")
				n.SchedulingEligibility, n.DrainStrategy = api.NodeSchedulingIneligible, &api.DrainStrategy{}
				tx.PutNode(&n)
				if c.mounted {
					tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "over", NodeID: "n1", PluginID: "p", ExternalID: "x", State: api.ClaimReleasing})
				}
			})
			now := w.store.Read().Job("default", "j")
			out := w.submit(planOf(now, nil, alloc(now, "a", "n1", 1)))
			if placed := w.store.Read().Alloc("a") != nil; out.Whole != c.whole || placed != c.whole {
				t.Errorf("placed %v: %+v", placed, out.PlanResult)
			}
		})
	}
}
