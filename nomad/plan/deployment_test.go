package plan_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// deploy is a plan that begins a deployment of one group.
func deploy(j *api.Job, places ...*api.Allocation) *api.Plan {
	p := planOf(j, nil, places...)
	p.Deployment = reconcile.NewDeployment("d"+j.ID, j, 50)
	p.Deployment.TaskGroups["g"] = &api.DeploymentState{DesiredTotal: 3, ProgressDeadline: time.Minute, DesiredCanaries: 1}
	for _, a := range places {
		a.DeploymentID = p.Deployment.ID
	}
	return p
}

func TestDeploymentCountsWhatWasPlaced(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", false)
	first, second := alloc(j, "a", "n1", 100), alloc(j, "b", "n2", 5000)
	first.DeploymentStatus, second.DeploymentStatus = &api.AllocDeploymentStatus{Canary: true}, &api.AllocDeploymentStatus{Canary: true}
	w.submit(deploy(j, first, second))
	d := w.store.Read().Deployment("dj")
	if d == nil || d.Status != api.DeploymentStatusRunning || d.CreateTime == 0 || d.JobSpecModifyIndex != j.JobModifyIndex {
		t.Fatalf("deployment %+v", d)
	}
	if g := d.TaskGroups["g"]; g.DesiredTotal != 3 || g.PlacedAllocs != 1 || len(g.PlacedCanaries) != 1 || g.PlacedCanaries[0] != "a" || g.RequireProgressBy.IsZero() {
		t.Fatalf("state %+v", g)
	}
}

func TestDeploymentKeepsItsCountersWhenWhatIsWantedChanges(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", false)
	w.submit(deploy(j, alloc(j, "a", "n1", 100)))
	again := planOf(j, nil)
	changed := *w.store.Read().Deployment("dj")
	changed.Status = api.DeploymentStatusFailed
	changed.TaskGroups = map[string]*api.DeploymentState{"g": {DesiredTotal: 7}, "h": {DesiredTotal: 1}}
	again.Deployment = &changed
	w.submit(again)
	d := w.store.Read().Deployment("dj")
	if g := d.TaskGroups["g"]; g.DesiredTotal != 7 || g.PlacedAllocs != 1 || g.ProgressDeadline != time.Minute || d.Status != api.DeploymentStatusRunning {
		t.Fatalf("deployment %+v, state %+v", d, g)
	}
	if d.TaskGroups["h"] == nil {
		t.Fatal("the new group is missing")
	}
}

func TestDeploymentThatIsOverIsNotEndedAgain(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", false)
	for status, want := range map[string]string{
		api.DeploymentStatusRunning: api.DeploymentStatusSuccessful,
		api.DeploymentStatusFailed:  api.DeploymentStatusFailed,
	} {
		d := &api.Deployment{ID: "d", Namespace: "default", JobID: "j", Status: status}
		w.put(func(tx *state.Txn) { tx.PutDeployment(d) })
		p := planOf(j, nil)
		p.DeploymentUpdates = []*api.DeploymentStatusUpdate{reconcile.Success(d), {DeploymentID: "unknown"}}
		w.submit(p)
		if got := w.store.Read().Deployment("d").Status; got != want {
			t.Errorf("%s became %s", status, got)
		}
	}
}

func TestUpdatedAllocationsJoinTheDeployment(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", false)
	healthy := true
	old := alloc(j, "a", "n1", 100)
	old.DeploymentID, old.DeploymentStatus = "earlier", &api.AllocDeploymentStatus{Healthy: &healthy}
	w.submit(planOf(j, nil, old))
	next := *j
	next.Version = 1
	w.put(func(tx *state.Txn) { tx.PutJob(&next) })
	j = w.store.Read().Job("default", "j")
	updated := *w.store.Read().Alloc("a")
	updated.Job = nil
	w.submit(deploy(j, &updated))
	a := w.store.Read().Alloc("a")
	if a.DeploymentID != "dj" || a.DeploymentStatus != nil || a.Job.Version != 1 {
		t.Fatalf("allocation %+v", a)
	}
	if g := w.store.Read().Deployment("dj").TaskGroups["g"]; g.PlacedAllocs != 1 || g.HealthyAllocs != 0 {
		t.Fatalf("state %+v", g)
	}
}

func TestPlacementOfAnOlderVersion(t *testing.T) {
	w := newWorld(t)
	before := w.job("j", false)
	w.put(func(tx *state.Txn) { tx.PutJobVersion(before) })
	next := *before
	next.Version = 1
	w.put(func(tx *state.Txn) { tx.PutJob(&next) })
	j := w.store.Read().Job("default", "j")
	a := alloc(j, "a", "n1", 100)
	a.Job = before
	w.submit(planOf(j, nil, a))
	if got := w.store.Read().Alloc("a"); got == nil || got.Job.Version != 0 {
		t.Fatalf("allocation %+v", got)
	}
	forgotten := *before
	forgotten.Version = 40
	b := alloc(j, "b", "n1", 100)
	b.Job = &forgotten
	if out := w.submit(planOf(j, nil, b)); out.Whole || w.store.Read().Alloc("b") != nil {
		t.Fatal("an allocation of a version that nobody knows")
	}
}

// Whether a port may be shared is told by the version that the allocation is of, not by the newest.
func TestPlacementOfAnOlderVersionIsVerifiedByItsOwnGroup(t *testing.T) {
	for _, oldShares := range []bool{true, false} {
		w := newWorld(t)
		w.put(func(tx *state.Txn) {
			n := *tx.Node("n1")
			res := *n.NodeResources
			res.Networks = []*api.NetworkResource{{IP: "10.0.0.1"}}
			n.NodeResources = &res
			tx.PutNode(&n)
		})
		version := func(number uint64, shares bool) *api.Job {
			j := *w.job("j", false)
			g := *j.TaskGroups[0]
			g.Networks = []*api.NetworkResource{{ReservedPorts: []api.Port{{Label: "http", Value: 8080, IgnoreCollision: shares}}}}
			j.Version, j.TaskGroups = number, []*api.TaskGroup{&g}
			w.put(func(tx *state.Txn) { tx.PutJob(&j); tx.PutJobVersion(&j) })
			return w.store.Read().Job("default", "j")
		}
		before := version(0, oldShares)
		j := version(1, !oldShares)
		placed := func(id string) *api.Allocation {
			a := alloc(j, id, "n1", 10)
			a.AllocatedResources.Shared.Ports = []api.PortMapping{{Label: "http", Value: 8080, HostIP: "10.0.0.1"}}
			return a
		}
		if out := w.submit(planOf(j, nil, placed("first"))); !out.Whole {
			t.Fatalf("first: %v", out.Reasons)
		}
		older := placed("older")
		older.Job = before
		if out := w.submit(planOf(j, nil, older)); out.Whole != oldShares {
			t.Errorf("older version shares %v: committed %v, %v", oldShares, out.Whole, out.Reasons)
		}
	}
}

func TestFailedAttemptToPlaceAgainIsRemembered(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", false)
	w.submit(planOf(j, nil, alloc(j, "a", "n1", 100)))
	tried := *w.store.Read().Alloc("a")
	tried.RescheduleTracker = &api.RescheduleTracker{LastReschedule: reconcile.NoPlacement}
	w.submit(planOf(j, nil, &tried))
	if got := w.store.Read().Alloc("a").RescheduleTracker; got == nil || got.LastReschedule != reconcile.NoPlacement {
		t.Fatalf("tracker %+v", got)
	}
}

func TestSuccessMarksTheVersionStableAtOnce(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", false)
	w.put(func(tx *state.Txn) { tx.PutJobVersion(j) })
	w.submit(deploy(j, alloc(j, "a", "n1", 100)))
	p := planOf(j, nil)
	p.DeploymentUpdates = []*api.DeploymentStatusUpdate{{DeploymentID: "dj", Status: api.DeploymentStatusSuccessful}}
	w.submit(p)
	tx := w.store.Read()
	if tx.Deployment("dj").Status != api.DeploymentStatusSuccessful || !tx.JobVersion("default", "j", 0).Stable || !tx.Job("default", "j").Stable {
		t.Errorf("deployment %s, version %+v", tx.Deployment("dj").Status, tx.JobVersion("default", "j", 0))
	}
}
