package scheduler_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
)

// oneInZone asks for a place of its own zone: group a for n0, group b for much memory.
func oneInZone(cpu int) *api.Job {
	return job("z", api.JobTypeService, 1, func(j *api.Job) {
		j.Constraints = []*api.Constraint{{Operand: api.ConstraintDistinctProperty, LTarget: "${meta.zone}"}}
		a := *j.TaskGroups[0]
		a.Name, a.Constraints = "a", []*api.Constraint{{LTarget: "${node.unique.name}", Operand: "=", RTarget: "n0"}}
		b := *j.TaskGroups[0]
		b.Name, b.Tasks = "b", []*api.Task{{Name: "t", Driver: "mock", Resources: &api.Resources{CPU: cpu, MemoryMB: 10}}}
		j.TaskGroups = []*api.TaskGroup{&a, &b}
	})
}

func inZone(zone string, cpu int64) func(*api.Node) {
	return func(n *api.Node) {
		n.Meta = map[string]string{"zone": zone}
		n.NodeResources.Cpu.CpuShares = cpu
	}
}

// What an earlier evaluation found out about nodes does not hold when a property is free elsewhere.
func TestAFreedPropertyIsNoticedOnAllItsNodes(t *testing.T) {
	c := newCluster(t)
	c.node("n0", inZone("z", 1000))
	c.node("n1", inZone("z", 4000))
	j := oneInZone(3000)
	c.register(j)
	f, memory := fleet.New(), &scheduler.RankingCache{}
	plan := func() *scheduler.Output {
		e := f.Edit()
		tx := c.store.Read()
		for n := range tx.Nodes() {
			if i := e.Find(n.ID); i < 0 || e.Row(i).Node != n {
				e.PutNode(n)
			}
		}
		for a := range tx.AllocsByJob("default", "z") {
			e.PutAlloc(a)
		}
		f = e.Done(c.index)
		return scheduler.Schedule(scheduler.Input{
			View: tx, Fleet: f, Eval: &api.Evaluation{ID: c.id(), Namespace: "default", JobID: "z", Type: j.Type}, Now: c.now,
			NewID: c.id, Seed: 7, Rankings: memory,
		})
	}
	if o := plan(); len(placed(o)) != 1 || len(o.Failed) != 1 {
		t.Fatalf("placed %d, failed %v", len(placed(o)), o.Failed)
	}
	c.run(j)
	if o := plan(); len(placed(o)) != 0 {
		t.Fatalf("placed %d", len(placed(o)))
	}
	c.node("n0", inZone("y", 1000))
	if o := plan(); len(placed(o)) != 1 {
		t.Errorf("placed %d, failed %v", len(placed(o)), o.Failed)
	}
}

// An update gives its property back, and takes it on another node.
func TestAnUpdateMovesWithinItsProperty(t *testing.T) {
	c := newCluster(t)
	c.node("n0", inZone("z", 1000))
	one := func(cpu int) *api.Job {
		return job("u", api.JobTypeService, 1, func(j *api.Job) {
			j.Constraints = []*api.Constraint{{Operand: api.ConstraintDistinctProperty, LTarget: "${meta.zone}"}}
			j.TaskGroups[0].Tasks[0].Resources.CPU = cpu
		})
	}
	c.register(one(500))
	c.run(one(500))
	c.setRunning("u")
	c.node("n1", inZone("z", 4000))
	c.register(one(3000))
	if o := c.run(one(3000)); len(placed(o)) != 1 || len(stopped(o)) != 1 {
		t.Errorf("placed %d, stopped %d, failed %v", len(placed(o)), len(stopped(o)), o.Failed)
	}
}
