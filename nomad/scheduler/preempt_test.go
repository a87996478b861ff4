package scheduler_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// preempting switches preemption on for all kinds of jobs.
func (c *cluster) preempting() *cluster {
	c.write(func(tx *state.Txn) {
		tx.PutSchedulerConfig(&api.SchedulerConfiguration{PreemptionConfig: api.PreemptionConfig{
			SystemSchedulerEnabled: true, SysBatchSchedulerEnabled: true, BatchSchedulerEnabled: true, ServiceSchedulerEnabled: true,
		}})
	})
	return c
}

// sized makes a job that asks for so much CPU, of a 4,000 MHz node.
func sized(id string, priority, cpu, count int, change ...func(*api.Job)) *api.Job {
	return job(id, api.JobTypeService, count, append(change, func(j *api.Job) {
		j.Priority, j.TaskGroups[0].Tasks[0].Resources.CPU = priority, cpu
	})...)
}

func (c *cluster) runs(jobs ...*api.Job) {
	c.t.Helper()
	for _, j := range jobs {
		c.register(j)
		if o := c.run(j); len(o.Failed) > 0 {
			c.t.Fatalf("%s is not placed: %+v", j.ID, o.Failed["g"])
		}
		c.setRunning(j.ID)
	}
}

// evicted are the names of those that the plan evicts.
func evicted(o *scheduler.Output) []string {
	var names []string
	for _, list := range o.Plan.NodePreemptions {
		for _, a := range list {
			names = append(names, a.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestWhoIsEvicted(t *testing.T) {
	static := func(port int) func(*api.Job) {
		return func(j *api.Job) {
			j.TaskGroups[0].Networks = []*api.NetworkResource{{ReservedPorts: []api.Port{{Label: "p", Value: port}}}}
		}
	}
	moves := func(n int) func(*api.Job) {
		return func(j *api.Job) { j.TaskGroups[0].Migrate = &api.MigrateStrategy{MaxParallel: n} }
	}
	for name, x := range map[string]struct {
		there []*api.Job
		comes *api.Job
		want  string
	}{
		"the lowest priority": {
			[]*api.Job{sized("low", 20, 2000, 1), sized("mid", 30, 2000, 1)}, sized("new", 50, 2000, 1), "low.g[0]",
		},
		"nobody within 10 of it": {
			[]*api.Job{sized("near", 41, 4000, 1)}, sized("new", 50, 1000, 1), "",
		},
		"somebody exactly 10 below": {
			[]*api.Job{sized("near", 40, 4000, 1)}, sized("new", 50, 1000, 1), "near.g[0]",
		},
		"the one that is nearest in size": {
			[]*api.Job{sized("big", 20, 2500, 1), sized("small", 20, 1500, 1)}, sized("new", 50, 1400, 1), "small.g[0]",
		},
		"nobody for whom there is capacity without": {
			[]*api.Job{sized("a", 10, 500, 1), sized("b", 20, 3500, 1)}, sized("new", 50, 3400, 1), "b.g[0]",
		},
		"all when all are needed": {
			[]*api.Job{sized("a", 10, 2000, 2)}, sized("new", 50, 4000, 1), "a.g[0] a.g[1]",
		},
		"nobody when all are not enough": {
			[]*api.Job{sized("a", 10, 2000, 1), sized("high", 90, 2000, 1)}, sized("new", 50, 3000, 1), "",
		},
		"the holder of a port": {
			[]*api.Job{sized("other", 10, 100, 1), sized("holder", 30, 100, 1, static(8080))}, sized("new", 50, 100, 1, static(8080)), "holder.g[0]",
		},
		"nobody when the holder of a port is too important": {
			[]*api.Job{sized("other", 10, 100, 1), sized("holder", 45, 100, 1, static(8080))}, sized("new", 50, 100, 1, static(8080)), "",
		},
		"not two of a group that moves one at a time": {
			[]*api.Job{sized("one", 20, 1000, 2, moves(1)), sized("two", 20, 1000, 2, moves(5))}, sized("new", 50, 2000, 1), "one.g[0] two.g[0]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t).preempting()
			c.nodes(1)
			c.runs(x.there...)
			c.register(x.comes)
			o := c.plan(x.comes)
			got := strings.Join(evicted(o), " ")
			if got != x.want {
				t.Fatalf("evicted %q, want %q", got, x.want)
			}
			if placed := len(placed(o)); placed != min(len(x.want), 1) {
				t.Fatalf("%d were placed", placed)
			}
		})
	}
}

// Of two nodes the one loses its work where the sum of the priorities is lower.
func TestFewerAreEvicted(t *testing.T) {
	on := func(node int) func(*api.Job) {
		return func(j *api.Job) {
			j.Constraints = []*api.Constraint{{LTarget: "${node.unique.name}", RTarget: fmt.Sprint("n", node), Operand: "="}}
		}
	}
	for single := range 2 {
		c := newCluster(t).preempting()
		c.nodes(2)
		one, two := sized("one", 20, 4000, 1, on(single)), sized("two", 20, 2000, 2, on(1-single))
		one.TaskGroups[0].Tasks[0].Resources.MemoryMB *= 2
		c.runs(one, two)
		comes := sized("new", 50, 4000, 1)
		c.register(comes)
		if got := evicted(c.plan(comes)); !slices.Equal(got, []string{"one.g[0]"}) {
			t.Errorf("the single one is on n%d: evicted %q", single, got)
		}
	}
}

func TestEvictionsSayForWhom(t *testing.T) {
	c := newCluster(t).preempting()
	c.nodes(1)
	c.runs(sized("low", 20, 2000, 2))
	j := sized("new", 70, 3000, 1)
	c.register(j)
	o := c.plan(j)
	a := placed(o)[0]
	if len(a.PreemptedAllocations) != 2 {
		t.Fatalf("the new one lists %v", a.PreemptedAllocations)
	}
	for _, v := range o.Plan.NodePreemptions["n0"] {
		if v.PreemptedByAllocation != a.ID || v.DesiredStatus != api.AllocDesiredStatusEvict {
			t.Errorf("victim %+v", v)
		}
	}
	if d := o.Plan.Annotations.DesiredTGUpdates["g"]; d.Preemptions != 2 || len(o.Plan.Annotations.PreemptedAllocs) != 2 {
		t.Errorf("annotations %+v, %d allocations", d, len(o.Plan.Annotations.PreemptedAllocs))
	}
}

func TestPreemptionIsForTheKindsThatMay(t *testing.T) {
	for kind, want := range map[string]int{api.JobTypeService: 0, api.JobTypeBatch: 0, api.JobTypeSysbatch: 0, api.JobTypeSystem: 2} {
		c := newCluster(t) // as it is configured by default
		c.nodes(2)
		c.runs(sized("low", 20, 4000, 2))
		j := sized("new", 70, 1000, 1, func(j *api.Job) { j.Type = kind })
		c.register(j)
		if got := len(evicted(c.plan(j))); got != want {
			t.Errorf("a %s job evicts %d", kind, got)
		}
	}
}

func TestNobodyIsEvictedWhereThereIsRoom(t *testing.T) {
	c := newCluster(t).preempting()
	c.nodes(2)
	c.runs(sized("low", 20, 4000, 1))
	j := sized("new", 70, 4000, 1)
	c.register(j)
	if o := c.plan(j); len(evicted(o)) != 0 || len(placed(o)) != 1 {
		t.Fatalf("evicted %v", evicted(o))
	}
}

// What is evicted is always less important, and always frees capacity.
func TestEvictionsMakeRoom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newCluster(t).preempting()
		c.nodes(rapid.IntRange(1, 3).Draw(rt, "nodes"))
		for i := range rapid.IntRange(1, 6).Draw(rt, "jobs") {
			j := sized(fmt.Sprint("j", i), rapid.IntRange(1, 100).Draw(rt, "priority"), 100*rapid.IntRange(1, 40).Draw(rt, "cpu"), rapid.IntRange(1, 3).Draw(rt, "count"))
			c.register(j)
			o := c.plan(j)
			tx := c.store.Read()
			e := fleet.Build(1, tx.Nodes(), tx.Allocs(api.AllNamespaces)).Edit()
			for _, lists := range []map[string][]*api.Allocation{o.Plan.NodeUpdate, o.Plan.NodePreemptions} {
				for _, list := range lists {
					for _, a := range list {
						e.Remove(e.Find(a.NodeID), a.ID)
						if was := tx.Alloc(a.ID); a.DesiredStatus == api.AllocDesiredStatusEvict && was.Job.Priority > j.Priority-10 {
							rt.Fatalf("priority %d evicts %d", j.Priority, was.Job.Priority)
						}
					}
				}
			}
			for _, a := range placed(o) {
				a.Job = o.Plan.Job
				e.PutAlloc(a)
				if row := e.Row(e.Find(a.NodeID)); row.Used.Exceeds(row.Total) != "" {
					rt.Fatalf("%s: %+v of %+v is used", a.NodeID, row.Used, row.Total)
				}
			}
			c.write(func(tx *state.Txn) { carryOutAll(tx, o.Plan) })
		}
	})
}

func carryOutAll(tx *state.Txn, p *api.Plan) {
	for _, lists := range []map[string][]*api.Allocation{p.NodeUpdate, p.NodePreemptions, p.NodeAllocation} {
		for _, list := range lists {
			for _, a := range list {
				done := *a
				done.Job = p.Job
				if old := tx.Alloc(a.ID); old != nil {
					done.Job = old.Job
				}
				if done.ServerTerminal() {
					done.ClientStatus = api.AllocClientStatusComplete
				}
				tx.PutAlloc(&done)
			}
		}
	}
}

// BenchmarkPreempt places 100 allocations of priority 80 on 5,000 nodes that are full of priority 20.
func BenchmarkPreempt(b *testing.B) {
	const nodes, count, each = 5000, 100, 28
	b.Run(fmt.Sprintf("nodes=%d/count=%d", nodes, count), func(b *testing.B) {
		c := benchCluster(b, nodes)
		c.preempting()
		c.fillWith(nodes, each, 20, 500)
		j := benchJob("j", api.JobTypeService, count)
		j.Priority = 80
		c.register(j)
		tx := c.store.Read()
		f := fleet.Build(tx.Index(), tx.Nodes(), tx.Allocs(api.AllNamespaces))
		e := &api.Evaluation{ID: c.id(), Namespace: "default", JobID: "j", Type: j.Type, Priority: 80}
		runtime.GC()
		for b.Loop() {
			o := scheduler.Schedule(scheduler.Input{View: tx, Fleet: f, Eval: e, Now: c.now, NewID: c.id, Seed: 7})
			if len(evicted(o)) == 0 || len(placed(o)) != count {
				b.Fatalf("%d placed, %d evicted", len(placed(o)), len(evicted(o)))
			}
		}
		b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N*count), "ms/placement")
	})
}
