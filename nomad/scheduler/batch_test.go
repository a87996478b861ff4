package scheduler_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// ended is what a node reports of tasks that ended without failing, by themselves or because they were told to.
func ended(a *api.Allocation) {
	a.ClientStatus = api.AllocClientStatusComplete
	a.TaskStates = map[string]*api.TaskState{"t": {State: api.TaskStateDead}}
}

func TestBatchWorkThatWasTakenAwayRunsAgain(t *testing.T) {
	for name, desired := range map[string]string{"evicted": api.AllocDesiredStatusEvict, "stopped": api.AllocDesiredStatusStop} {
		c := newCluster(t)
		c.nodes(1)
		j := job("b", api.JobTypeBatch, 1)
		c.register(j)
		c.run(j)
		c.each("b", func(a *api.Allocation) { ended(a); a.DesiredStatus = desired })
		if o := c.run(j); len(placed(o)) != 1 {
			t.Errorf("%s: placed %d", name, len(placed(o)))
		}
	}
}

func TestFinishedBatchWorkIsNotRepeatedWhenItsNodeIsDrained(t *testing.T) {
	c := newCluster(t)
	c.nodes(1)
	j := job("b", api.JobTypeBatch, 1)
	c.register(j)
	c.run(j)
	c.each("b", func(a *api.Allocation) { ended(a); a.DesiredTransition.Migrate = true })
	if o := c.run(j); !o.Empty() {
		t.Errorf("placed %d, stopped %d", len(placed(o)), len(stopped(o)))
	}
}

func TestMovedBatchWorkWaitsForRoom(t *testing.T) {
	c := newCluster(t)
	c.nodes(1)
	j := job("b", api.JobTypeBatch, 1)
	c.register(j)
	c.run(j)
	c.setRunning("b")
	c.each("b", func(a *api.Allocation) { a.DesiredTransition.Migrate = true })
	c.node("n0", func(n *api.Node) { n.SchedulingEligibility = api.NodeSchedulingIneligible })
	if o := c.run(j); len(stopped(o)) != 1 || len(o.Failed) != 1 {
		t.Fatalf("stopped %d, failed %v", len(stopped(o)), o.Failed)
	}
	c.write(func(tx *state.Txn) {
		for a := range c.store.Read().AllocsByJob("default", "b") {
			next := *a
			ended(&next)
			tx.PutAlloc(&next)
		}
	})
	if o := c.run(j); len(o.Failed) != 1 {
		t.Fatal("the work is taken for finished")
	}
	c.node("n0")
	if o := c.run(j); len(placed(o)) != 1 {
		t.Fatalf("placed %d", len(placed(o)))
	}
}
