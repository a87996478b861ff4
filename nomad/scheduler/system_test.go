package scheduler_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
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
