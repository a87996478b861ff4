package scheduler_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// on has a job ask for a volume that one node may use.
func on(volume string) func(*api.Job) {
	return withVolume(volume, func(r *api.VolumeRequest) { r.AccessMode = string(api.AccessSingleNodeMulti) })
}

// hold is claim for volumes that one node may use; whom the plan stops gives them back.
func (c *cluster) hold(o *scheduler.Output, volume string) {
	c.claim(o, volume)
	c.write(func(tx *state.Txn) {
		for _, a := range placed(o) {
			held := *tx.Claim("default", volume, a.ID, "")
			held.AccessMode = api.AccessSingleNodeMulti
			tx.PutClaim(&held)
		}
		for _, a := range stopped(o) {
			left := *tx.Claim("default", volume, a.ID, "")
			left.State = api.ClaimReleasing
			tx.PutClaim(&left)
		}
	})
}

// sharing has a job of three on one of two nodes, whose id it answers, for the sake of a volume that one node may use.
func sharing(t *testing.T, change ...func(*api.Job)) (c *cluster, node string) {
	t.Helper()
	c = newCluster(t)
	for _, id := range []string{"n1", "n2"} {
		c.node(id, plugin(10, nil))
	}
	c.volume("v", api.AccessSingleNodeMulti)
	j := job("j", api.JobTypeService, 3, append([]func(*api.Job){on("v"), user("old")}, change...)...)
	c.register(j)
	o := c.run(j)
	c.hold(o, "v")
	c.decide("j", true)
	c.run(j)
	if len(o.Failed) != 0 {
		t.Fatalf("placed %d: %+v", len(placed(o)), o.Failed["g"])
	}
	return c, placed(o)[0].NodeID
}

func (c *cluster) ineligible(id string) {
	c.write(func(tx *state.Txn) {
		n := *tx.Node(id)
		n.SchedulingEligibility = api.NodeSchedulingIneligible
		tx.PutNode(&n)
	})
}

func off(node string) func(*api.Job) {
	return func(j *api.Job) {
		j.Constraints = []*api.Constraint{{LTarget: "${node.unique.name}", Operand: "!=", RTarget: node}}
	}
}

// An update of allocations that share a volume which one node may use has no place one by one when they cannot be there
// any more: each waits for the others to leave the volume.
func TestUpdateOfThoseThatShareAVolumeOfOneNodeLeavesItTogether(t *testing.T) {
	for name, update := range map[string][]func(*api.Job){
		"one by one": {updated(api.UpdateStrategy{MaxParallel: 1})}, "at once": nil,
	} {
		for what, leave := range map[string]func(c *cluster, node string) []func(*api.Job){
			"ineligible": func(c *cluster, node string) []func(*api.Job) { c.ineligible(node); return nil },
			"constraint": func(_ *cluster, node string) []func(*api.Job) { return []func(*api.Job){off(node)} },
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				c, node := sharing(t, update...)
				next := job("j", api.JobTypeService, 3, append(append(leave(c, node), update...), on("v"), user("new"))...)
				c.register(next)
				o := c.run(next)
				if len(placed(o)) != 3 || len(stopped(o)) != 3 || len(o.Failed) != 0 {
					t.Fatalf("placed %d, stopped %d, failed %+v", len(placed(o)), len(stopped(o)), o.Failed["g"])
				}
				for _, a := range placed(o) {
					if a.NodeID == node || a.PreviousAllocation == "" {
						t.Errorf("placed on %s after %q", a.NodeID, a.PreviousAllocation)
					}
				}
			})
		}
	}
}

// Where they can stay together they are replaced as the update block says, and where they can go nowhere none is stopped.
func TestUpdateOfThoseThatShareAVolumeOfOneNodeStopsNoMoreThanItMust(t *testing.T) {
	one := updated(api.UpdateStrategy{MaxParallel: 1})
	c, _ := sharing(t, one)
	next := job("j", api.JobTypeService, 3, one, on("v"), user("new"))
	c.register(next)
	if o := c.run(next); len(placed(o)) != 1 || len(stopped(o)) != 1 {
		t.Errorf("in their place: placed %d, stopped %d", len(placed(o)), len(stopped(o)))
	}
	for name, u := range map[string]func(*api.Job){"one by one": one, "at once": func(*api.Job) {}} {
		c, node := sharing(t, u)
		c.ineligible(node)
		c.write(func(tx *state.Txn) {
			for n := range tx.Nodes() {
				if n.ID != node {
					full := *n
					full.CSINodePlugins = nil
					tx.PutNode(&full)
				}
			}
		})
		next := job("j", api.JobTypeService, 3, u, on("v"), user("new"))
		c.register(next)
		o := c.run(next)
		if len(placed(o)) != 0 || len(stopped(o)) != 0 || !refusedFor(o, "plugin p is missing") {
			t.Errorf("%s, nowhere to go: placed %d, stopped %d, %+v", name, len(placed(o)), len(stopped(o)), o.Failed["g"])
		}
		if live := c.live("j"); len(live) != 3 {
			t.Errorf("%d left", len(live))
		}
	}
}

// The groups of a job may share such a volume too.
func TestUpdateOfGroupsThatShareAVolumeOfOneNodeLeavesItTogether(t *testing.T) {
	two := func(j *api.Job) {
		g := *j.TaskGroups[0]
		g.Name, g.Count = "h", 1
		j.TaskGroups = append(j.TaskGroups, &g)
	}
	c, node := sharing(t, two)
	live := len(c.live("j"))
	c.ineligible(node)
	next := job("j", api.JobTypeService, 3, on("v"), user("new"), two)
	c.register(next)
	o := c.run(next)
	if live != 4 || len(placed(o)) != 4 || len(stopped(o)) != 4 || len(o.Failed) != 0 {
		t.Fatalf("of %d placed %d, stopped %d, failed %+v", live, len(placed(o)), len(stopped(o)), o.Failed)
	}
	for i, a := range stopped(o) {
		for _, b := range stopped(o)[:i] {
			if a.ID == b.ID {
				t.Errorf("allocation %s is stopped twice", a.ID)
			}
		}
	}
}

// Where there is capacity for some of them only, they leave all the same, and the others come when there is more.
func TestThoseThatLeaveTogetherMayWaitForCapacity(t *testing.T) {
	one := updated(api.UpdateStrategy{MaxParallel: 1})
	c, node := sharing(t, one)
	c.ineligible(node)
	other := map[string]string{"n1": "n2", "n2": "n1"}[node]
	capacity := func(cpu int64) {
		c.write(func(tx *state.Txn) {
			n := *tx.Node(other)
			res := *n.NodeResources
			res.Cpu.CpuShares = cpu
			n.NodeResources = &res
			tx.PutNode(&n)
		})
	}
	capacity(1100) // two of three
	next := job("j", api.JobTypeService, 3, one, on("v"), user("new"))
	c.register(next)
	o := c.run(next)
	if len(placed(o)) != 2 || len(stopped(o)) != 3 || o.Failed["g"] == nil || o.Failed["g"].DimensionExhausted["cpu"] != 1 {
		t.Fatalf("placed %d, stopped %d, %+v", len(placed(o)), len(stopped(o)), o.Failed["g"])
	}
	c.hold(o, "v")
	capacity(4000)
	if o = c.run(next); len(placed(o)) != 1 || placed(o)[0].NodeID != other {
		t.Errorf("placed %+v, failed %+v", placed(o), o.Failed["g"])
	}
}

// What cannot be shared where it is, because nothing new comes there, says so.
func TestRefusalNamesTheNodeThatTakesNothingNew(t *testing.T) {
	c, node := sharing(t)
	c.ineligible(node)
	more := job("j", api.JobTypeService, 4, on("v"), user("old"))
	c.register(more)
	if o := c.run(more); len(placed(o)) != 0 || !refusedFor(o, "`nomad node eligibility -enable "+node+"` lets others come there") {
		t.Errorf("placed %d, %+v", len(placed(o)), o.Failed["g"])
	}
	c.write(func(tx *state.Txn) {
		n := *tx.Node(node)
		n.DrainStrategy = &api.DrainStrategy{}
		tx.PutNode(&n)
	})
	if o := c.run(more); !refusedFor(o, "is being drained") {
		t.Errorf("%+v", o.Failed["g"])
	}
}

// A drain in the middle of a roll-out moves them together, whatever version each is of and whether the roll-out goes on.
func TestDrainDuringARollOutMovesThoseThatShareAVolumeOfOneNode(t *testing.T) {
	for name, update := range map[string]api.UpdateStrategy{"one by one": {MaxParallel: 1}, "canary": {MaxParallel: 1, Canary: 1}} {
		for what, meanwhile := range map[string]func(c *cluster){
			"under way": func(*cluster) {},
			"healthy":   func(c *cluster) { c.decide("j", true) },
			"unhealthy": func(c *cluster) { c.decide("j", false) },
			"paused": func(c *cluster) {
				c.change(c.deployment("j"), func(d *api.Deployment) { d.Status = api.DeploymentStatusPaused })
			},
			"failed": func(c *cluster) {
				c.change(c.deployment("j"), func(d *api.Deployment) { d.Status = api.DeploymentStatusFailed })
			},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				c, node := sharing(t, updated(update))
				next := job("j", api.JobTypeService, 3, updated(update), on("v"), user("new"))
				c.register(next)
				o := c.run(next)
				if len(placed(o)) != 1 {
					t.Fatalf("placed %d: %+v", len(placed(o)), o.Failed["g"])
				}
				c.hold(o, "v")
				c.setRunning("j")
				meanwhile(c)
				before := c.users("j")
				c.write(func(tx *state.Txn) {
					n := *tx.Node(node)
					n.DrainStrategy, n.SchedulingEligibility = &api.DrainStrategy{}, api.NodeSchedulingIneligible
					tx.PutNode(&n)
				})
				c.each("j", func(a *api.Allocation) { a.DesiredTransition.Migrate = true })
				o = c.run(next)
				for _, a := range placed(o) {
					if a.NodeID == node {
						t.Errorf("placed on the node that is drained")
					}
				}
				if len(o.Failed) != 0 || len(placed(o)) < 3 {
					t.Errorf("%s before: placed %d, stopped %d, after: %s, failed %+v", before, len(placed(o)), len(stopped(o)), c.users("j"), o.Failed["g"])
				}
			})
		}
	}
}
