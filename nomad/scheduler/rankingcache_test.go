package scheduler_test

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// shapes are groups that ask for different things.
var shapes = []func(*api.Job){
	func(*api.Job) {}, spreadOut, apart, both(constrained, attracted), propertied, ported,
	func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources = &api.Resources{CPU: 3000, MemoryMB: 50} },
	func(j *api.Job) { j.Type = api.JobTypeSystem },
}

// An evaluation that remembers what others found decides as one that looks at every node.
func TestMemoryChangesNoDecision(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newCluster(t)
		memory, f := &scheduler.RankingCache{}, fleet.New()
		put := func(changes func(tx *state.Txn, e *fleet.Edit)) {
			e := f.Edit()
			c.write(func(tx *state.Txn) { changes(tx, e) })
			f = e.Done(c.index)
		}
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			i := rapid.IntRange(0, 7).Draw(rt, "which")
			switch rapid.SampledFrom([]string{"node", "node", "job", "job", "job", "end"}).Draw(rt, "what") {
			case "node":
				n := benchNode(i)
				n.Meta["rack"] = fmt.Sprint("r", rapid.IntRange(0, 2).Draw(rt, "rack"))
				n.Status = rapid.SampledFrom([]string{api.NodeStatusReady, api.NodeStatusReady, api.NodeStatusDown}).Draw(rt, "status")
				put(func(tx *state.Txn, e *fleet.Edit) { tx.PutNode(n); e.PutNode(n) })
			case "job":
				j := benchJob(fmt.Sprint("j", i), api.JobTypeService, rapid.IntRange(0, 9).Draw(rt, "count"))
				shapes[i](j)
				c.register(j)
				var o *scheduler.Output
				decide(rt, c, f, memory, j, func(out *scheduler.Output) { o = out })
				if rapid.Bool().Draw(rt, "committed") {
					put(func(tx *state.Txn, e *fleet.Edit) { carryOut(tx, e, o.Plan) })
				}
			case "end":
				put(func(tx *state.Txn, e *fleet.Edit) {
					for a := range c.store.Read().AllocsByJob("default", fmt.Sprint("j", i)) {
						ended := *a
						ended.ClientStatus = api.AllocClientStatusComplete
						tx.PutAlloc(&ended)
						e.PutAlloc(&ended)
					}
				})
			}
		}
	})
}

// decide compares the two ways.
func decide(t *rapid.T, c *cluster, f *fleet.Fleet, m *scheduler.RankingCache, j *api.Job, keep func(*scheduler.Output)) {
	tx := c.store.Read()
	in := scheduler.Input{
		View: tx, Fleet: f, Now: c.now, NewID: c.id, Seed: 7,
		Eval: &api.Evaluation{ID: c.id(), Namespace: "default", JobID: j.ID, Type: j.Type, Priority: 50},
	}
	fresh := scheduler.Schedule(in)
	in.Rankings = m
	remembered := scheduler.Schedule(in)
	keep(remembered)
	if a, b := whereabouts(fresh), whereabouts(remembered); !reflect.DeepEqual(a, b) {
		t.Fatalf("job %s\nlooks at all:  %v\nremembers:     %v", j.ID, a, b)
	}
	if !reflect.DeepEqual(fresh.Failed, remembered.Failed) || !reflect.DeepEqual(fresh.Classes, remembered.Classes) {
		t.Fatalf("job %s: %+v %v, and with memory %+v %v", j.ID, fresh.Failed["g"], fresh.Classes, remembered.Failed["g"], remembered.Classes)
	}
}

func whereabouts(o *scheduler.Output) map[string]string {
	m := map[string]string{}
	for _, a := range placed(o) {
		counts := *a.Metrics
		counts.ScoreMetaData = nil
		m[a.Name+" "+a.NodeID] = fmt.Sprintf("placed %+v", counts)
	}
	for _, a := range stopped(o) {
		m[a.Name+" "+a.ID] = "stopped"
	}
	return m
}

// What an allocation says of its placement stays, whatever later rankings contain.
func TestMetricsStayAsTheyWere(t *testing.T) {
	c := newCluster(t)
	c.nodes(3)
	memory, f := &scheduler.RankingCache{}, c.fleet()
	metrics := func(id string) *api.AllocationMetric {
		c.register(job(id, api.JobTypeService, 1))
		o := scheduler.Schedule(scheduler.Input{
			View: c.store.Read(), Fleet: f, Now: c.now, NewID: c.id, Rankings: memory,
			Eval: &api.Evaluation{ID: c.id(), Namespace: "default", JobID: id, Type: api.JobTypeService},
		})
		return placed(o)[0].Metrics
	}
	before := metrics("a")
	c.node("n0", func(n *api.Node) { n.Datacenter = "dc2" })
	c.node("n1", func(n *api.Node) { n.Drivers, n.Attributes = nil, nil })
	e := f.Edit()
	for _, id := range []string{"n0", "n1"} {
		e.PutNode(c.store.Read().Node(id))
	}
	f = e.Done(c.index)
	after := metrics("b")
	if want := map[string]int{"dc1": 3}; !reflect.DeepEqual(before.NodesAvailable, want) || before.ConstraintFiltered != nil {
		t.Errorf("first %v %v", before.NodesAvailable, before.ConstraintFiltered)
	}
	if want := map[string]int{"dc1": 2, "dc2": 1}; !reflect.DeepEqual(after.NodesAvailable, want) || after.NodesFiltered != 1 {
		t.Errorf("then %v, %d filtered", after.NodesAvailable, after.NodesFiltered)
	}
}

func carryOut(tx *state.Txn, e *fleet.Edit, p *api.Plan) {
	for _, lists := range []map[string][]*api.Allocation{p.NodeUpdate, p.NodeAllocation} {
		for _, list := range lists {
			for _, a := range list {
				done := *a
				if old := tx.Alloc(a.ID); old != nil {
					done.Job = old.Job
				} else {
					done.Job = p.Job
				}
				if done.ServerTerminal() {
					done.ClientStatus = api.AllocClientStatusComplete
				}
				tx.PutAlloc(&done)
				e.PutAlloc(&done)
			}
		}
	}
}
