package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/deployments/tally"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func updated(u api.UpdateStrategy) func(*api.Job) {
	return func(j *api.Job) {
		u.ProgressDeadline = time.Minute
		j.TaskGroups[0].Update = &u
	}
}

func user(name string) func(*api.Job) {
	return func(j *api.Job) { j.TaskGroups[0].Tasks[0].User = name }
}

// decide sets the health of all live allocations of the job that have a deployment.
func (c *cluster) decide(id string, healthy bool) {
	c.each(id, func(a *api.Allocation) {
		a.ClientStatus = api.AllocClientStatusRunning
		if a.DeploymentID != "" {
			s := api.AllocDeploymentStatus{}
			if a.DeploymentStatus != nil {
				s = *a.DeploymentStatus
			}
			s.Healthy, a.DeploymentStatus = &healthy, &s
		}
	})
}

// deployment is the newest deployment of the job, or nil.
func (c *cluster) deployment(id string) *api.Deployment {
	var newest *api.Deployment
	for d := range c.store.Read().DeploymentsByJob("default", id) {
		if newest == nil || d.CreateIndex > newest.CreateIndex {
			newest = d
		}
	}
	return newest
}

func (c *cluster) change(d *api.Deployment, change func(*api.Deployment)) {
	c.write(func(tx *state.Txn) {
		next := tally.Copy(tx.Deployment(d.ID))
		change(next)
		tx.PutDeployment(next)
	})
}

// users counts the live allocations of the job by the user of their version.
func (c *cluster) users(id string) string {
	m := map[string]int{}
	for a := range c.store.Read().AllocsByJob("default", id) {
		if !a.Terminal() {
			m[a.Job.TaskGroups[0].Tasks[0].User]++
		}
	}
	return fmt.Sprint(m)
}

// deployed brings a first version into the cluster, by a deployment that succeeded.
func deployed(t *testing.T, kind string, count int, u api.UpdateStrategy) *cluster {
	t.Helper()
	c := newCluster(t)
	c.nodes(4)
	j := job("j", kind, count, updated(u), user("old"))
	c.register(j)
	c.run(j)
	c.decide("j", true)
	c.run(j)
	if d := c.deployment("j"); d == nil || d.Status != api.DeploymentStatusSuccessful {
		t.Fatalf("first deployment: %+v", d)
	}
	return c
}

func TestFirstVersionIsADeployment(t *testing.T) {
	c := newCluster(t)
	c.nodes(4)
	j := job("j", api.JobTypeService, 3, updated(api.UpdateStrategy{MaxParallel: 1, AutoRevert: true}))
	c.register(j)
	o := c.run(j)
	d := c.deployment("j")
	if d == nil || len(placed(o)) != 3 || d.Status != api.DeploymentStatusRunning || d.StatusDescription != "Deployment is running" {
		t.Fatalf("placed %d, deployment %+v", len(placed(o)), d)
	}
	if g := d.TaskGroups["g"]; g.DesiredTotal != 3 || g.PlacedAllocs != 3 || !g.AutoRevert || g.ProgressDeadline != time.Minute {
		t.Fatalf("state %+v", g)
	}
	for _, a := range placed(o) {
		if a.DeploymentID != d.ID || a.DeploymentStatus != nil {
			t.Fatalf("allocation %+v", a)
		}
	}
	if o := c.run(j); !o.Empty() || o.DeploymentID != d.ID {
		t.Fatalf("before anything is healthy: %+v", o.Plan)
	}
	c.decide("j", true)
	c.run(j)
	if d := c.deployment("j"); d.Status != api.DeploymentStatusSuccessful || d.StatusDescription != "Deployment completed successfully" {
		t.Fatalf("at the end %+v", d)
	}
	if o := c.run(j); !o.Empty() {
		t.Fatal("something is left to do")
	}
}

func TestRollOutWaitsForHealth(t *testing.T) {
	c := deployed(t, api.JobTypeService, 4, api.UpdateStrategy{MaxParallel: 2})
	j := job("j", api.JobTypeService, 4, updated(api.UpdateStrategy{MaxParallel: 2}), user("new"))
	c.register(j)
	for _, want := range []string{"map[new:2 old:2]", "map[new:4]"} {
		c.run(j)
		c.setRunning("j")
		if o := c.run(j); !o.Empty() || c.users("j") != want {
			t.Fatalf("have %s, want %s; %+v", c.users("j"), want, o.Plan.Annotations.DesiredTGUpdates["g"])
		}
		c.decide("j", true)
	}
	c.run(j)
	if d := c.deployment("j"); d.Status != api.DeploymentStatusSuccessful || d.JobVersion != 1 || d.TaskGroups["g"].HealthyAllocs != 4 {
		t.Fatalf("deployment %+v", d)
	}
}

func TestCanariesRunBesideTheOldUntilPromotion(t *testing.T) {
	u := api.UpdateStrategy{MaxParallel: 4, Canary: 1}
	c := deployed(t, api.JobTypeService, 3, u)
	j := job("j", api.JobTypeService, 3, updated(u), user("new"))
	c.register(j)
	o := c.run(j)
	p, d := placed(o), c.deployment("j")
	if len(p) != 1 || p[0].Name != "j.g[0]" || p[0].DeploymentStatus == nil || !p[0].DeploymentStatus.Canary || len(stopped(o)) != 0 {
		t.Fatalf("placed %+v, stopped %d", p, len(stopped(o)))
	}
	if g := d.TaskGroups["g"]; g.DesiredCanaries != 1 || g.DesiredTotal != 3 || !slices.Equal(g.PlacedCanaries, []string{p[0].ID}) {
		t.Fatalf("state %+v", g)
	}
	if d.StatusDescription != "Deployment is running but requires manual promotion" || o.Plan.Annotations.DesiredTGUpdates["g"].Canary != 1 {
		t.Fatalf("deployment %+v", d)
	}
	c.decide("j", true)
	if o := c.run(j); !o.Empty() || c.users("j") != "map[new:1 old:3]" {
		t.Fatalf("before promotion: %s", c.users("j"))
	}
	c.change(d, func(d *api.Deployment) { d.TaskGroups["g"].Promoted = true })
	c.run(j)
	if got := c.users("j"); got != "map[new:3]" || len(c.live("j")) != 3 {
		t.Fatalf("after promotion: %s", got)
	}
	c.decide("j", true)
	c.run(j)
	if d := c.deployment("j"); d.Status != api.DeploymentStatusSuccessful {
		t.Fatalf("at the end %+v", d)
	}
}

func TestLostWhileCanariesWaitStaysOfTheOldVersion(t *testing.T) {
	u := api.UpdateStrategy{MaxParallel: 1, Canary: 1}
	c := deployed(t, api.JobTypeService, 2, u)
	j := job("j", api.JobTypeService, 2, updated(u), user("new"))
	c.register(j)
	c.run(j)
	c.decide("j", true)
	var node string
	for a := range c.store.Read().AllocsByJob("default", "j") {
		if a.Job.Version == 0 {
			node = a.NodeID
		}
	}
	c.node(node, func(n *api.Node) { n.Status = api.NodeStatusDown })
	c.run(j)
	for a := range c.store.Read().AllocsByJob("default", "j") {
		if !a.Terminal() && a.Job.Version == 0 && a.DeploymentID == c.deployment("j").ID {
			t.Fatalf("old version in the new deployment: %+v", a)
		}
	}
	if got := c.users("j"); got != "map[new:1 old:2]" {
		t.Fatalf("have %s", got)
	}
}

func TestNewVersionCancelsTheDeploymentAndItsCanaries(t *testing.T) {
	u := api.UpdateStrategy{MaxParallel: 1, Canary: 2, AutoPromote: true}
	c := deployed(t, api.JobTypeService, 2, u)
	second := job("j", api.JobTypeService, 2, updated(u), user("second"))
	c.register(second)
	c.run(second)
	d := c.deployment("j")
	if d.StatusDescription != "Deployment is running pending automatic promotion" {
		t.Fatalf("description %q", d.StatusDescription)
	}
	third := job("j", api.JobTypeService, 2, updated(u), user("third"))
	c.register(third)
	c.run(third)
	if got := c.store.Read().Deployment(d.ID); got.Status != api.DeploymentStatusCancelled || got.StatusDescription != "Cancelled due to newer version of job" {
		t.Fatalf("older deployment %+v", got)
	}
	if got := c.users("j"); got != "map[old:2 third:2]" {
		t.Fatalf("have %s", got)
	}
	c.write(func(tx *state.Txn) {
		stopped := *tx.Job("default", "j")
		stopped.Stop = true
		tx.PutJob(&stopped)
	})
	c.run(third)
	if d := c.deployment("j"); d.Status != api.DeploymentStatusCancelled || d.StatusDescription != "Cancelled because job is stopped" || len(c.live("j")) != 0 {
		t.Fatalf("after the stop %+v, live %d", d, len(c.live("j")))
	}
}

func TestInPlaceUpdateJoinsTheDeploymentWithoutHealth(t *testing.T) {
	u := api.UpdateStrategy{MaxParallel: 1}
	c := deployed(t, api.JobTypeService, 2, u)
	j := job("j", api.JobTypeService, 3, updated(u), user("old"))
	c.register(j)
	o := c.run(j)
	d := c.deployment("j")
	if len(placed(o)) != 1 || d.JobVersion != 1 || d.TaskGroups["g"].DesiredTotal != 3 {
		t.Fatalf("placed %d, deployment %+v", len(placed(o)), d)
	}
	for _, a := range c.live("j") {
		if a.DeploymentID != d.ID || a.DeploymentStatus != nil || a.Job.Version != 1 {
			t.Fatalf("allocation %+v", a)
		}
	}
}

func TestJobWithoutUpdateBlockChangesAtOnce(t *testing.T) {
	c := newCluster(t)
	c.nodes(4)
	for i, name := range []string{"old", "new"} {
		j := job("j", api.JobTypeService, 4, user(name), func(j *api.Job) {
			if i == 1 {
				j.TaskGroups[0].Update = &api.UpdateStrategy{MaxParallel: 0, Canary: 1}
			}
		})
		c.register(j)
		c.run(j)
		if got := c.users("j"); got != fmt.Sprintf("map[%s:4]", name) || c.deployment("j") != nil {
			t.Fatalf("%s: %s, %+v", name, got, c.deployment("j"))
		}
	}
}

func TestSystemJobRollsOutByDeployment(t *testing.T) {
	u := api.UpdateStrategy{MaxParallel: 2}
	c := deployed(t, api.JobTypeSystem, 1, u)
	j := job("j", api.JobTypeSystem, 1, updated(u), user("new"))
	c.register(j)
	for _, want := range []string{"map[new:2 old:2]", "map[new:4]"} {
		c.run(j)
		if o := c.run(j); !o.Empty() || c.users("j") != want {
			t.Fatalf("have %s, want %s", c.users("j"), want)
		}
		c.decide("j", true)
	}
	if o := c.run(j); len(placed(o)) != 0 {
		t.Fatal("more was placed")
	}
	if d := c.deployment("j"); d.Status != api.DeploymentStatusSuccessful || d.TaskGroups["g"].DesiredTotal != 4 {
		t.Fatalf("deployment %+v", d)
	}
}

func TestSystemCanariesAreAPartInHundred(t *testing.T) {
	u := api.UpdateStrategy{MaxParallel: 3, Canary: 40}
	c := deployed(t, api.JobTypeSystem, 1, u)
	j := job("j", api.JobTypeSystem, 1, updated(u), user("new"))
	c.register(j)
	c.run(j)
	c.decide("j", true)
	c.node("later")
	if o := c.run(j); len(placed(o)) != 0 || c.users("j") != "map[new:2 old:2]" {
		t.Fatalf("have %s", c.users("j"))
	}
	d := c.deployment("j")
	if g := d.TaskGroups["g"]; g.DesiredCanaries != 2 || g.DesiredTotal != 5 || len(g.PlacedCanaries) != 2 {
		t.Fatalf("state %+v", g)
	}
	c.change(d, func(d *api.Deployment) { d.TaskGroups["g"].Promoted = true })
	c.run(j)
	if got := c.users("j"); got != "map[new:5]" {
		t.Fatalf("have %s", got)
	}
	c.decide("j", true)
	c.run(j)
	if d := c.deployment("j"); d.Status != api.DeploymentStatusSuccessful {
		t.Fatalf("deployment %+v", d)
	}
}

func TestSystemNodeThatTakesNothingIsLeftAlone(t *testing.T) {
	u := api.UpdateStrategy{MaxParallel: 4}
	c := deployed(t, api.JobTypeSystem, 1, u)
	closed := func(n *api.Node) { n.SchedulingEligibility = api.NodeSchedulingIneligible }
	c.node("n0", closed)
	j := job("j", api.JobTypeSystem, 1, updated(u), user("new"))
	c.register(j)
	c.run(j)
	c.decide("j", true)
	c.run(j)
	if d := c.deployment("j"); c.users("j") != "map[new:3]" || d.Status != api.DeploymentStatusSuccessful || d.TaskGroups["g"].DesiredTotal != 3 {
		t.Fatalf("have %s, deployment %+v", c.users("j"), d)
	}
	c.node("n0")
	c.run(j)
	if d := c.deployment("j"); c.users("j") != "map[new:4]" || d.Status != api.DeploymentStatusSuccessful || d.TaskGroups["g"].DesiredTotal != 3 {
		t.Fatalf("have %s, deployment %+v", c.users("j"), d)
	}
}

func TestFailedAllocationWithoutPlaceIsMarkedAndTriedAgain(t *testing.T) {
	c := newCluster(t)
	c.node("n0")
	j := job("j", api.JobTypeService, 1, func(j *api.Job) {
		j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, DelayFunction: "constant"}
	})
	c.register(j)
	c.run(j)
	c.each("j", func(a *api.Allocation) { a.ClientStatus, a.ModifyTime = api.AllocClientStatusFailed, c.now.UnixNano() })
	c.node("n0", func(n *api.Node) { n.SchedulingEligibility = api.NodeSchedulingIneligible })
	c.run(j)
	for a := range c.store.Read().AllocsByJob("default", "j") {
		if a.RescheduleTracker == nil || a.RescheduleTracker.LastReschedule != "no placement" || a.DesiredStatus != api.AllocDesiredStatusRun {
			t.Fatalf("allocation %+v", a)
		}
	}
	if o := c.run(j); !o.Empty() || o.Queued["g"] != 1 {
		t.Fatalf("the same again: %+v, queued %v", o.Plan, o.Queued)
	}
	c.node("n1")
	o := c.run(j)
	if p := placed(o); len(p) != 1 || p[0].RescheduleTracker.LastReschedule != "ok" || len(stopped(o)) != 1 {
		t.Fatalf("with capacity: %+v", p)
	}
}

// A canary that is stopped comes back, also where nothing of the older version is left that it may replace.
func TestASystemCanaryThatIsStoppedComesBack(t *testing.T) {
	u := api.UpdateStrategy{MaxParallel: 4, Canary: 100, AutoPromote: true}
	c := deployed(t, api.JobTypeSystem, 1, u)
	j := job("j", api.JobTypeSystem, 1, updated(u), user("new"))
	c.register(j)
	c.run(j)
	c.decide("j", true)
	d := c.deployment("j")
	for _, id := range d.TaskGroups["g"].PlacedCanaries[:2] {
		c.write(func(tx *state.Txn) {
			next := *tx.Alloc(id)
			next.DesiredTransition.Migrate = true
			tx.PutAlloc(&next)
		})
	}
	o := c.run(j)
	if got := c.users("j"); got != "map[new:4]" {
		t.Fatalf("have %s", got)
	}
	for _, a := range placed(o) {
		if a.DeploymentStatus == nil || !a.DeploymentStatus.Canary || a.DeploymentID != d.ID {
			t.Errorf("what follows a canary is none: %+v", a)
		}
	}
	if o := c.run(j); !o.Empty() {
		t.Errorf("something is left to do: %+v", o.Plan)
	}
}

// Canaries for which there are no nodes any more are not waited for.
func TestSystemCanariesFollowTheNodes(t *testing.T) {
	u := api.UpdateStrategy{MaxParallel: 4, Canary: 100, AutoPromote: true}
	c := deployed(t, api.JobTypeSystem, 1, u)
	j := job("j", api.JobTypeSystem, 1, updated(u), user("new"))
	c.register(j)
	c.run(j)
	c.decide("j", true)
	down := func(n *api.Node) { n.Status = api.NodeStatusDown }
	c.node("n0", down)
	c.run(j)
	if g := c.deployment("j").TaskGroups["g"]; g.DesiredCanaries != 3 || g.DesiredTotal != 3 {
		t.Fatalf("state %+v", g)
	}
	c.node("n0")
	c.run(j)
	if g := c.deployment("j").TaskGroups["g"]; g.DesiredCanaries != 3 || g.DesiredTotal != 4 {
		t.Fatalf("state %+v", g)
	}
	for _, n := range []string{"n0", "n1", "n2", "n3"} {
		c.node(n, down)
	}
	c.run(j)
	if d := c.deployment("j"); !d.Active() || d.TaskGroups["g"].DesiredCanaries != 1 {
		t.Fatalf("without a node: %+v", d)
	}
}

// A canary whose node is full waits for it like anything else.
func TestASystemCanaryWaitsForItsNode(t *testing.T) {
	u := api.UpdateStrategy{MaxParallel: 4, Canary: 100, AutoPromote: true}
	c := newCluster(t)
	c.nodes(1)
	j := job("j", api.JobTypeSystem, 1, updated(u), user("old"))
	c.register(j)
	c.run(j)
	c.decide("j", true)
	c.run(j)
	j = job("j", api.JobTypeSystem, 1, updated(u), user("new"))
	c.register(j)
	c.run(j)
	c.each("j", func(a *api.Allocation) { a.ClientStatus, a.DesiredStatus = "complete", api.AllocDesiredStatusEvict })
	small := func(n *api.Node) { n.NodeResources.Cpu.CpuShares = 100 }
	c.node("n0", small)
	if o := c.run(j); len(o.FullNodes) != 1 {
		t.Fatalf("nobody waits for the node: %+v", o)
	}
	c.node("n0")
	c.run(j)
	if got := c.users("j"); got != "map[new:1]" {
		t.Fatalf("have %s", got)
	}
}
