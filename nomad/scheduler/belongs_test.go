package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// has gives the node a volume of plugin p in a state of its claim.
func (c *cluster) has(node string, at api.ClaimState) {
	c.write(func(tx *state.Txn) {
		tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: node, PluginID: "p", ExternalID: "x", State: at})
	})
}

// becomes changes a node.
func (c *cluster) becomes(node string, change func(*api.Node)) {
	c.write(func(tx *state.Txn) {
		n := *tx.Node(node)
		change(&n)
		tx.PutNode(&n)
	})
}

func of(dc string) func(*api.Job) { return func(j *api.Job) { j.Datacenters = []string{dc} } }

// A plugin belongs to a node as long as its volumes do: one that ends there comes back, though the node has left its job.
func TestPluginComesBackToANodeThatHasLeftItsJob(t *testing.T) {
	ends := func(c *cluster) {
		c.each("s", func(a *api.Allocation) {
			a.ClientStatus = api.AllocClientStatusFailed
			a.TaskStates = map[string]*api.TaskState{"t": {State: "dead", Failed: true, FinishedAt: c.now}}
		})
		c.now = c.now.Add(time.Minute)
	}
	lost := func(c *cluster) {
		c.each("s", func(a *api.Allocation) {
			a.DesiredStatus, a.ClientStatus = api.AllocDesiredStatusStop, api.AllocClientStatusLost
		})
	}
	collected := func(c *cluster) {
		c.write(func(tx *state.Txn) {
			for a := range c.store.Read().AllocsByJob("default", "s") {
				tx.DeleteAlloc(a.ID)
			}
		})
	}
	beside := func(dc string) func(*cluster) {
		return func(c *cluster) {
			ends(c)
			c.register(job("other", api.JobTypeSystem, 1, runsPlugin("p"), of(dc)))
		}
	}
	for name, x := range map[string]struct {
		ends func(*cluster)
		has  api.ClaimState
		want int
	}{
		"failed":                        {ends, api.ClaimReady, 1},
		"lost with its node":            {lost, api.ClaimReleasing, 1},
		"collected since":               {collected, api.ClaimReady, 1},
		"nothing is there":              {ends, api.ClaimUnmounted, 0},
		"another job runs it there":     {beside("dc2"), api.ClaimReady, 0},
		"another job runs it elsewhere": {beside("dc3"), api.ClaimReady, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.node("n0")
			j := job("s", api.JobTypeSystem, 1, runsPlugin("p"), of("dc1"))
			c.register(j)
			c.run(j)
			c.setRunning("s")
			c.becomes("n0", func(n *api.Node) { n.Datacenter = "dc2" })
			c.has("n0", x.has)
			x.ends(c)
			if o := c.run(j); len(placed(o)) != x.want {
				t.Fatalf("placed %d, want %d", len(placed(o)), x.want)
			}
			if x.want == 0 {
				return
			}
			c.setRunning("s")
			if o := c.run(j); !o.Empty() {
				t.Errorf("placed %d, stopped %d once more", len(placed(o)), len(stopped(o)))
			}
			c.has("n0", api.ClaimUnmounted)
			if o := c.run(j); len(placed(o)) != 0 || len(stopped(o)) != 1 {
				t.Errorf("placed %d, stopped %d when nothing is there any more", len(placed(o)), len(stopped(o)))
			}
		})
	}
}

// Who waits for its turn will need the plugin: nobody looks at the job again when the turn has come.
func TestPluginStaysForAClaimThatWaits(t *testing.T) {
	c := newCluster(t)
	c.node("n0", ineligible)
	c.has("n0", api.ClaimWaiting)
	j := job("s", api.JobTypeSystem, 1, runsPlugin("p"))
	c.register(j)
	if o := c.run(j); len(placed(o)) != 1 {
		t.Fatalf("placed %d", len(placed(o)))
	}
}

// The plugin of a service job that failed, or is updated, goes on where its volumes are, whatever the node is.
func TestPluginOfAServiceGoesOnWhereItsVolumesAre(t *testing.T) {
	fails := func(c *cluster, j *api.Job) *api.Job {
		c.each("s", func(a *api.Allocation) {
			a.ClientStatus = api.AllocClientStatusFailed
			a.TaskStates = map[string]*api.TaskState{"t": {State: "dead", Failed: true, FinishedAt: c.now}}
		})
		c.now = c.now.Add(time.Minute)
		return j
	}
	updated := func(c *cluster, j *api.Job) *api.Job {
		next := *j
		g := *j.TaskGroups[0]
		task := *g.Tasks[0]
		task.Env = map[string]string{"a": "b"}
		g.Tasks, next.TaskGroups = []*api.Task{&task}, []*api.TaskGroup{&g}
		c.register(&next)
		return &next
	}
	for name, x := range map[string]struct {
		node  func(*api.Node)
		ends  func(*cluster, *api.Job) *api.Job
		has   api.ClaimState
		stays bool
	}{
		"failed, eligible":      {func(*api.Node) {}, fails, api.ClaimReady, true},
		"failed, ineligible":    {ineligible, fails, api.ClaimReady, true},
		"failed, draining":      {draining, fails, api.ClaimReleasing, true},
		"updated, eligible":     {func(*api.Node) {}, updated, api.ClaimReady, true},
		"updated, ineligible":   {ineligible, updated, api.ClaimReady, true},
		"of another datacenter": {func(n *api.Node) { n.Datacenter = "dc2" }, fails, api.ClaimReady, true},
		"nothing is there":      {ineligible, fails, api.ClaimUnmounted, false},
		"the node is down":      {func(n *api.Node) { n.Status = api.NodeStatusDown }, fails, api.ClaimReady, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.node("n0")
			j := job("s", api.JobTypeService, 1, runsPlugin("p"), of("dc1"), func(j *api.Job) {
				j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, DelayFunction: "constant", Delay: time.Second}
			})
			c.register(j)
			if o := c.run(j); len(placed(o)) != 1 {
				t.Fatalf("placed %d", len(placed(o)))
			}
			c.setRunning("s")
			for i := range 20 { // better ones
				c.node(fmt.Sprintf("m%d", i))
			}
			c.becomes("n0", x.node)
			c.has("n0", x.has)
			o := c.run(x.ends(c, j))
			if len(placed(o)) != 1 || (placed(o)[0].NodeID == "n0") != x.stays {
				t.Fatalf("placed %d: %+v", len(placed(o)), o.Plan.NodeAllocation)
			}
		})
	}
}

// Without capacity on its node the plugin of a service goes elsewhere: it may be the controller of others. When there is capacity
// again, the next one that is placed comes to the node.
func TestPluginOfAServiceGoesElsewhereWithoutCapacity(t *testing.T) {
	c := newCluster(t)
	c.node("n0")
	j := job("s", api.JobTypeService, 1, runsPlugin("p"))
	c.register(j)
	c.run(j)
	c.setRunning("s")
	c.has("n0", api.ClaimReady)
	c.each("s", func(a *api.Allocation) { a.ClientStatus = api.AllocClientStatusFailed })
	c.runs(sized("big", 50, 3900, 1))
	c.nodes(2)
	next := job("s", api.JobTypeService, 1, runsPlugin("p"), func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"a": "b"} })
	c.register(next)
	if got := placed(c.run(next)); len(got) != 1 || got[0].NodeID != "n1" {
		t.Fatalf("placed %+v", got)
	}
	c.setRunning("s")
	c.each("big", func(a *api.Allocation) { a.DesiredStatus, a.ClientStatus = "stop", "complete" })
	c.becomes("n0", ineligible)
	more := job("s", api.JobTypeService, 2, runsPlugin("p"), func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"a": "b"} })
	c.register(more)
	if got := placed(c.run(more)); len(got) != 1 || got[0].NodeID != "n0" {
		t.Errorf("placed %+v", got)
	}
}

// Of a service that is scaled down, those stay whose node needs them.
func TestPluginThatIsNeededIsNotScaledAway(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	distinct := func(j *api.Job) { j.Constraints = []*api.Constraint{{Operand: api.ConstraintDistinctHosts}} }
	j := job("s", api.JobTypeService, 2, runsPlugin("p"), distinct)
	c.register(j)
	c.run(j)
	c.setRunning("s")
	last := c.live("s")["s.g[1]"]
	c.has(last.NodeID, api.ClaimReady)
	less := job("s", api.JobTypeService, 1, runsPlugin("p"), distinct)
	c.register(less)
	o := c.run(less)
	if got := stopped(o); len(got) != 1 || got[0].ID == last.ID {
		t.Fatalf("stopped %+v", got)
	}
	if o = c.run(less); len(stopped(o))+len(placed(o)) != 0 {
		t.Errorf("stopped %d, placed %d", len(stopped(o)), len(placed(o)))
	}
}

// What stays as it is on a node that has left the job is no part of a deployment: that would never be over.
func TestDeploymentDoesNotWaitForAPluginThatStaysAsItIs(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	rolls := func(j *api.Job) {
		j.TaskGroups[0].Update = &api.UpdateStrategy{MaxParallel: 1, HealthCheck: "task_states", MinHealthyTime: 1, HealthyDeadline: time.Minute}
	}
	j := job("s", api.JobTypeSystem, 1, runsPlugin("p"), of("dc1"), rolls)
	c.register(j)
	c.run(j)
	c.setRunning("s")
	c.has("n0", api.ClaimReady)
	c.becomes("n0", func(n *api.Node) { n.Datacenter = "dc2" })
	next := job("s", api.JobTypeSystem, 1, runsPlugin("p"), of("dc1"), rolls, func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"a": "b"} })
	c.register(next)
	o := c.run(next)
	if got := placed(o); len(got) != 1 || got[0].NodeID != "n1" {
		t.Fatalf("placed %+v", got)
	}
	d := c.store.Read().Deployment(o.DeploymentID)
	if d == nil || d.TaskGroups["g"].DesiredTotal != 1 {
		t.Fatalf("the deployment is %+v", d)
	}
}
