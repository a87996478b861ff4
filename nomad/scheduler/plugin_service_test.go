package scheduler_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func pluginCluster(t *testing.T, nodes int) *cluster {
	c := newCluster(t)
	c.nodes(nodes)
	return c
}

func hostsApart(j *api.Job) {
	j.Constraints = []*api.Constraint{{Operand: api.ConstraintDistinctHosts}}
}

func env(value string) func(*api.Job) {
	return func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"a": value} }
}

// uses gives nodes a volume each of plugin p.
func (c *cluster) uses(at api.ClaimState, nodes ...string) {
	c.write(func(tx *state.Txn) {
		for _, n := range nodes {
			tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v" + n, AllocID: "a" + n, NodeID: n, PluginID: "p", ExternalID: "x" + n, State: at})
		}
	})
}

// on lists the nodes where the job has allocations that are to run.
func (c *cluster) on(id string) (nodes []string) {
	for a := range c.store.Read().AllocsByJob("default", id) {
		if !a.Terminal() {
			nodes = append(nodes, a.NodeID)
		}
	}
	slices.Sort(nodes)
	return nodes
}

func (c *cluster) wantOn(id string, nodes ...string) {
	c.t.Helper()
	if got := c.on(id); !slices.Equal(got, nodes) {
		c.t.Fatalf("%s runs on %q, want %q", id, got, nodes)
	}
}

func retried(j *api.Job) {
	j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, DelayFunction: "constant", Delay: time.Minute}
}

// away is a cluster in which the plugin of a service job was replaced on n1 while n0 was down.
func away(t *testing.T, change ...func(*api.Job)) (*cluster, *api.Job) {
	c := pluginCluster(t, 1)
	j := job("s", api.JobTypeService, 1, append([]func(*api.Job){runsPlugin("p"), of("dc1"), retried}, change...)...)
	c.register(j)
	c.run(j)
	c.setRunning("s")
	c.node("n1")
	c.uses(api.ClaimReady, "n0")
	c.becomes("n0", func(n *api.Node) { n.Status = api.NodeStatusDown })
	c.run(j)
	c.setRunning("s")
	c.wantOn("s", "n1")
	return c, j
}

// A plugin that was replaced elsewhere while its node was away comes back beside its successor, and that goes when nobody
// needs it where it is.
func TestPluginOfAServiceComesBackToANodeThatIsBack(t *testing.T) {
	forgotten := func(c *cluster) {
		c.write(func(tx *state.Txn) {
			for a := range c.store.Read().AllocsByNode("n0") {
				tx.DeleteAlloc(a.ID)
			}
		})
	}
	for name, x := range map[string]struct {
		back func(*api.Node)
		then func(*cluster)
		want int
	}{
		"mounted":               {func(*api.Node) {}, nil, 1},
		"ineligible":            {ineligible, nil, 1},
		"of another datacenter": {func(n *api.Node) { n.Datacenter = "dc2" }, nil, 1},
		"given up":              {func(n *api.Node) { n.StaleMounts = []*api.StaleMount{{PluginID: "p"}} }, func(c *cluster) { c.uses(api.ClaimUnmounted, "n0") }, 1},
		"waits":                 {func(*api.Node) {}, func(c *cluster) { c.uses(api.ClaimWaiting, "n0") }, 1},
		"nothing is there":      {func(*api.Node) {}, func(c *cluster) { c.uses(api.ClaimUnmounted, "n0") }, 0},
		"collected since":       {func(*api.Node) {}, forgotten, 1},
		"another job runs it there": {func(*api.Node) {}, func(c *cluster) {
			other := job("other", api.JobTypeService, 1, runsPlugin("p"))
			c.register(other)
			c.write(func(tx *state.Txn) {
				tx.PutAlloc(&api.Allocation{ID: "o", Namespace: "default", JobID: "other", Job: other, TaskGroup: "g", NodeID: "n0", DesiredStatus: "run", ClientStatus: "running"})
			})
		}, 0},
		"another job runs its controllers": {func(*api.Node) {}, func(c *cluster) {
			forgotten(c)
			c.register(job("other", api.JobTypeService, 1, runsPlugin("p"), func(j *api.Job) { j.TaskGroups[0].Tasks[0].CSIPluginConfig.Type = api.CSIPluginTypeController }))
		}, 1},
		"of two jobs that had it not, the other one": {func(*api.Node) {}, func(c *cluster) {
			forgotten(c)
			c.register(job("other", api.JobTypeService, 1, runsPlugin("p")))
		}, 0},
		"of two jobs that had it not, this one": {func(*api.Node) {}, func(c *cluster) {
			forgotten(c)
			c.register(job("this", api.JobTypeService, 1, runsPlugin("p")))
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c, j := away(t)
			c.becomes("n0", func(n *api.Node) { n.Status = api.NodeStatusReady; x.back(n) })
			if x.then != nil {
				x.then(c)
			}
			o := c.run(j)
			if got := placed(o); len(got) != x.want || x.want == 1 && got[0].NodeID != "n0" || len(stopped(o)) > 0 {
				t.Fatalf("placed %d, stopped %d: %+v", len(got), len(stopped(o)), o.Plan.NodeAllocation)
			}
			if x.want == 0 {
				return
			}
			if o = c.run(j); !o.Empty() {
				t.Fatalf("placed %d, stopped %d before the one that is back runs", len(placed(o)), len(stopped(o)))
			}
			c.setRunning("s")
			c.run(j)
			c.wantOn("s", "n0")
			if o = c.run(j); !o.Empty() {
				t.Errorf("placed %d, stopped %d once more", len(placed(o)), len(stopped(o)))
			}
		})
	}
}

// Where both nodes need the plugin both have it; who is beyond the count goes when its volumes have left.
func TestPluginOfAServiceStaysBeyondItsCountWhileItIsNeeded(t *testing.T) {
	c, j := away(t)
	c.uses(api.ClaimReady, "n1")
	c.becomes("n0", func(n *api.Node) { n.Status = api.NodeStatusReady })
	for range 3 {
		c.run(j)
		c.setRunning("s")
		c.wantOn("s", "n0", "n1")
	}
	c.uses(api.ClaimUnmounted, "n0")
	c.run(j)
	c.wantOn("s", "n1")
}

// One that has come back and fails is tried again by the rules of its group, on its node.
func TestPluginThatHasComeBackIsTriedAgainWhereItIsNeeded(t *testing.T) {
	c, j := away(t)
	c.uses(api.ClaimReady, "n1")
	c.becomes("n0", func(n *api.Node) { n.Status = api.NodeStatusReady })
	c.run(j)
	c.setRunning("s")
	fails := func() {
		c.write(func(tx *state.Txn) {
			for a := range c.store.Read().AllocsByNode("n0") {
				if !a.Terminal() {
					next := *a
					next.ClientStatus, next.ModifyTime = api.AllocClientStatusFailed, c.now.UnixNano()
					tx.PutAlloc(&next)
				}
			}
		})
	}
	for range 3 {
		c.node("better" + c.id())
		fails()
		if o := c.run(j); len(placed(o)) > 0 {
			t.Fatalf("placed %d at once", len(placed(o)))
		}
		c.now = c.now.Add(time.Hour)
		o := c.run(j)
		got := placed(o)
		if len(got) != 1 || got[0].NodeID != "n0" || got[0].RescheduleTracker == nil {
			t.Fatalf("placed %+v", got)
		}
		c.setRunning("s")
		c.wantOn("s", "n0", "n1")
	}
}

// Without capacity the job waits for it, and says so.
func TestPluginThatHasNoCapacityWhereItIsNeededWaitsForIt(t *testing.T) {
	c, j := away(t)
	c.becomes("n0", func(n *api.Node) { n.Status = api.NodeStatusReady })
	c.register(sized("big", 50, 3900, 1))
	c.becomes("n1", ineligible)
	c.run(sized("big", 50, 3900, 1))
	c.setRunning("big")
	c.wantOn("big", "n0")
	o := c.run(j)
	if len(placed(o)) != 0 || o.Failed["g"] == nil || !o.Escaped || o.Queued["g"] != 1 {
		t.Fatalf("placed %d, failed %+v, escaped %v", len(placed(o)), o.Failed, o.Escaped)
	}
	c.each("big", func(a *api.Allocation) { a.DesiredStatus, a.ClientStatus = "stop", "complete" })
	if got := placed(c.run(j)); len(got) != 1 || got[0].NodeID != "n0" {
		t.Errorf("placed %+v", got)
	}
}

// An update that has no capacity on a node does not take the plugin from there.
func TestUpdateThatFindsNoRoomLeavesThePluginWhereItIsNeeded(t *testing.T) {
	c := pluginCluster(t, 1)
	j := job("s", api.JobTypeService, 1, runsPlugin("p"))
	c.register(j)
	c.run(j)
	c.setRunning("s")
	c.runs(sized("big", 50, 3000, 1))
	c.node("n1")
	c.uses(api.ClaimReady, "n0")
	next := job("s", api.JobTypeService, 1, runsPlugin("p"), func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = 2000 })
	c.register(next)
	o := c.run(next)
	if len(placed(o))+len(stopped(o)) > 0 || o.Failed["g"] == nil {
		t.Fatalf("placed %d, stopped %d, failed %v", len(placed(o)), len(stopped(o)), o.Failed)
	}
}

func (c *cluster) healthy(id string) {
	yes := true
	c.each(id, func(a *api.Allocation) {
		a.ClientStatus = api.AllocClientStatusRunning
		if a.DeploymentID == "" {
			return
		}
		s := api.AllocDeploymentStatus{}
		if a.DeploymentStatus != nil {
			s = *a.DeploymentStatus
		}
		s.Healthy, s.Timestamp = &yes, c.now
		a.DeploymentStatus = &s
	})
}

func (c *cluster) promote(id string) {
	c.write(func(tx *state.Txn) {
		d := *tx.Deployment(id)
		d.TaskGroups = map[string]*api.DeploymentState{}
		for name, s := range tx.Deployment(id).TaskGroups {
			now := *s
			now.Promoted = true
			d.TaskGroups[name] = &now
		}
		tx.PutDeployment(&d)
	})
}

// A canary that is promoted does not take the plugin from a node that needs it: that is updated on its node.
func TestPromotedCanaryTakesNoPluginFromANodeThatNeedsIt(t *testing.T) {
	for name, needing := range map[string][]string{"where it was": {"n0"}, "where the canary is too": {"n0", "n1"}} {
		t.Run(name, func(t *testing.T) {
			c := pluginCluster(t, 1)
			rolls := func(j *api.Job) {
				j.TaskGroups[0].Update = &api.UpdateStrategy{MaxParallel: 1, Canary: 1, HealthCheck: "task_states", MinHealthyTime: 1, HealthyDeadline: time.Minute}
			}
			j := job("s", api.JobTypeService, 1, runsPlugin("p"), rolls, hostsApart)
			c.register(j)
			c.run(j)
			c.healthy("s")
			c.run(j)
			c.node("n1")
			c.uses(api.ClaimReady, needing...)
			next := job("s", api.JobTypeService, 1, runsPlugin("p"), rolls, hostsApart, env("b"))
			c.register(next)
			o := c.run(next)
			c.wantOn("s", "n0", "n1")
			c.healthy("s")
			c.promote(o.DeploymentID)
			for range 4 {
				o := c.run(next)
				if on := c.on("s"); !slices.Contains(on, "n0") {
					t.Fatalf("the plugin runs on %q", on)
				}
				for _, a := range stopped(o) {
					if a.NodeID == "n0" && !slices.ContainsFunc(placed(o), func(b *api.Allocation) bool { return b.PreviousAllocation == a.ID }) {
						t.Errorf("%s on %s is stopped without a successor: %s", a.Name, a.NodeID, a.DesiredDescription)
					}
				}
				c.healthy("s")
			}
			c.wantOn("s", needing...)
			for _, a := range c.live("s") {
				if a.Job.Version != 1 {
					t.Errorf("%s on %s is of version %d", a.Name, a.NodeID, a.Job.Version)
				}
			}
			if d := c.store.Read().Deployment(o.DeploymentID); d.Status != api.DeploymentStatusSuccessful {
				t.Errorf("the deployment is %s", d.Status)
			}
		})
	}
}

// A rolling update replaces plugins on their nodes, no more at once than may be, and leaves no node without.
func TestRollingUpdateLeavesNoNodeWithoutItsPlugin(t *testing.T) {
	for _, kind := range []string{api.JobTypeService, api.JobTypeSystem} {
		t.Run(kind, func(t *testing.T) {
			c := pluginCluster(t, 5)
			rolls := func(j *api.Job) {
				j.TaskGroups[0].Update = &api.UpdateStrategy{MaxParallel: 2, HealthCheck: "task_states", MinHealthyTime: 1, HealthyDeadline: time.Minute}
				if kind == api.JobTypeSystem {
					j.Constraints, j.TaskGroups[0].Count = nil, 1
				}
			}
			j := job("s", kind, 5, runsPlugin("p"), hostsApart, rolls)
			c.register(j)
			for range 4 {
				c.run(j)
				c.healthy("s")
			}
			all := []string{"n0", "n1", "n2", "n3", "n4"}
			c.wantOn("s", all...)
			c.uses(api.ClaimReady, all...)
			for range 5 { // that look better
				c.node("m" + c.id())
			}
			if kind == api.JobTypeSystem {
				for n := range c.store.Read().Nodes() {
					if strings.HasPrefix(n.ID, "m") {
						c.becomes(n.ID, ineligible)
					}
				}
			}
			next := job("s", kind, 5, runsPlugin("p"), hostsApart, rolls, env("b"))
			c.register(next)
			for range 6 {
				o := c.run(next)
				if n := len(placed(o)); n > 2 {
					t.Fatalf("%d are replaced at once", n)
				}
				c.wantOn("s", all...)
				c.healthy("s")
			}
			for _, a := range c.live("s") {
				if a.Job.Version != 1 {
					t.Errorf("%s on %s is of version %d", a.Name, a.NodeID, a.Job.Version)
				}
			}
		})
	}
}

// When a node reconnects the one stays whose node needs the plugin, whatever the group prefers.
func TestReconnectTakesNoPluginFromANodeThatNeedsIt(t *testing.T) {
	for name, x := range map[string]struct {
		prefers api.ReconcileOption
		needing []string
	}{
		"the original":    {api.ReconcileOptionKeepReplacement, []string{"n0"}},
		"the replacement": {api.ReconcileOptionKeepOriginal, []string{"n1"}},
		"both":            {api.ReconcileOptionKeepOriginal, []string{"n0", "n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := pluginCluster(t, 1)
			j := job("s", api.JobTypeService, 1, runsPlugin("p"), func(j *api.Job) {
				j.TaskGroups[0].Disconnect = &api.DisconnectStrategy{LostAfter: time.Hour, Replace: true, Reconcile: &x.prefers}
			})
			c.register(j)
			c.run(j)
			c.setRunning("s")
			c.node("n1")
			c.uses(api.ClaimReady, "n0")
			c.becomes("n0", func(n *api.Node) { n.Status = api.NodeStatusDisconnected })
			c.run(j)
			c.write(func(tx *state.Txn) {
				for a := range c.store.Read().AllocsByNode("n1") {
					next := *a
					next.ClientStatus = api.AllocClientStatusRunning
					tx.PutAlloc(&next)
				}
			})
			c.uses(api.ClaimUnmounted, "n0", "n1")
			c.uses(api.ClaimReady, x.needing...)
			c.becomes("n0", func(n *api.Node) { n.Status = api.NodeStatusReady })
			c.setRunning("s")
			c.run(j)
			c.wantOn("s", x.needing...)
			c.run(j)
			c.wantOn("s", x.needing...)
		})
	}
}
