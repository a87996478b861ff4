package scheduler_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// What ended although it should go on keeps nobody away, and its successor comes not too near to who took its place.
func TestTheSuccessorOfWhatEndedKeepsItsDistance(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	j := job("web", api.JobTypeService, 3, func(j *api.Job) {
		g := j.TaskGroups[0]
		g.Constraints = []*api.Constraint{{Operand: api.ConstraintDistinctHosts}}
		g.ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, Delay: time.Minute, DelayFunction: "constant"}
	})
	c.register(j)
	c.run(j)
	c.setRunning("web")
	first := c.live("web")["web.g[0]"]
	c.write(func(tx *state.Txn) {
		over := *first
		over.ClientStatus, over.ModifyTime = api.AllocClientStatusComplete, c.now.UnixNano()
		tx.PutAlloc(&over)
	})
	c.run(j) // the third comes where the first was
	if third := c.live("web")["web.g[2]"]; third == nil || third.NodeID != first.NodeID {
		t.Fatalf("the third is %+v", third)
	}
	c.now = c.now.Add(2 * time.Minute)
	if o := c.run(j); len(placed(o)) > 0 || o.Queued["g"] != 1 {
		t.Errorf("%d placed, %d wait", len(placed(o)), o.Queued["g"])
	}
}

// A group that is to keep a distance from now on is moved apart as far as it must.
func TestAGroupThatIsToKeepItsDistanceMovesApart(t *testing.T) {
	c := newCluster(t)
	c.node("n0")
	version := func(change func(g *api.TaskGroup)) *api.Job {
		return job("web", api.JobTypeService, 3, func(j *api.Job) { change(j.TaskGroups[0]) })
	}
	near := version(func(*api.TaskGroup) {})
	c.register(near)
	c.run(near)
	c.setRunning("web")
	first := c.live("web")["web.g[0]"]
	c.node("n1")
	apart := version(func(g *api.TaskGroup) { g.Constraints = []*api.Constraint{{Operand: api.ConstraintDistinctHosts}} })
	c.register(apart)
	o := c.run(apart)
	live := c.live("web")
	if live["web.g[0]"].ID != first.ID || live["web.g[1]"].NodeID != "n1" || live["web.g[2]"].NodeID != "n0" || o.Queued["g"] != 1 {
		t.Errorf("%v, %d wait", live, o.Queued["g"])
	}
	c.node("n2")
	c.run(apart)
	if a := c.live("web")["web.g[2]"]; a.NodeID != "n2" {
		t.Errorf("the last is on %s", a.NodeID)
	}
	if o := c.run(apart); len(placed(o))+len(stopped(o)) > 0 {
		t.Errorf("%d come and %d go again", len(placed(o)), len(stopped(o)))
	}
}
