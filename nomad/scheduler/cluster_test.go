package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/deployments/tally"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// cluster is a state store in which plans are carried out at once.
type cluster struct {
	t     testing.TB
	store *state.Store
	index uint64
	now   time.Time
	ids   int
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	s := state.New()
	return &cluster{t: t, store: s, index: 10, now: time.Unix(1_700_000_000, 0)}
}

func (c *cluster) write(fn func(tx *state.Txn)) {
	c.index++
	tx := c.store.Write(c.index, c.now)
	fn(tx)
	tx.Commit()
}

func (c *cluster) id() string {
	c.ids++
	return fmt.Sprintf("%08d-0000-0000-0000-000000000000", c.ids)
}

func (c *cluster) node(id string, change ...func(*api.Node)) {
	n := &api.Node{
		ID: id, Name: id, Datacenter: "dc1", NodePool: "default", Status: api.NodeStatusReady,
		SchedulingEligibility: api.NodeSchedulingEligible, ComputedClass: "c1",
		Attributes: map[string]string{"kernel.name": "linux", "driver.mock": "1"},
		Drivers:    map[string]*api.DriverInfo{"mock": {Detected: true, Healthy: true}},
		NodeResources: &api.NodeResources{
			Cpu: api.NodeCpuResources{CpuShares: 4000}, Memory: api.NodeMemoryResources{MemoryMB: 8192},
			Disk:     api.NodeDiskResources{DiskMB: 100_000},
			Networks: []*api.NetworkResource{{Device: "eth0", IP: "10.0.0.1"}},
		},
	}
	for _, f := range change {
		f(n)
	}
	c.write(func(tx *state.Txn) { tx.PutNode(n) })
}

func (c *cluster) nodes(n int) {
	for i := range n {
		c.node(fmt.Sprintf("n%d", i))
	}
}

func job(id, kind string, count int, change ...func(*api.Job)) *api.Job {
	j := &api.Job{
		ID: id, Name: id, Namespace: "default", Type: kind, Priority: 50, Datacenters: []string{"*"}, NodePool: "default",
		TaskGroups: []*api.TaskGroup{{
			Name: "g", Count: count,
			Tasks: []*api.Task{{Name: "t", Driver: "mock", Resources: &api.Resources{CPU: 500, MemoryMB: 256}}},
		}},
	}
	for _, f := range change {
		f(j)
	}
	return j
}

func (c *cluster) register(j *api.Job) {
	c.write(func(tx *state.Txn) {
		stored := *j
		stored.JobModifyIndex = c.index
		if old := tx.Job(j.Namespace, j.ID); old != nil {
			stored.Version = old.Version + 1
		}
		tx.PutJob(&stored)
	})
}

func (c *cluster) plan(j *api.Job, change ...func(*api.Evaluation)) *scheduler.Output {
	tx := c.store.Read()
	e := &api.Evaluation{ID: c.id(), Namespace: j.Namespace, JobID: j.ID, Type: j.Type, Priority: j.Priority, TriggeredBy: api.TriggerJobRegister}
	for _, f := range change {
		f(e)
	}
	return scheduler.Schedule(scheduler.Input{
		View: tx, Fleet: c.fleet(), Eval: e, Now: c.now, NewID: c.id, Seed: 7,
	})
}

func (c *cluster) fleet() *fleet.Fleet {
	tx := c.store.Read()
	return fleet.Build(tx.Index(), tx.Nodes(), tx.Allocs(api.AllNamespaces))
}

// run plans and carries the plan out.
func (c *cluster) run(j *api.Job, change ...func(*api.Evaluation)) *scheduler.Output {
	o := c.plan(j, change...)
	c.write(func(tx *state.Txn) {
		if o.Plan.Deployment != nil {
			tx.PutDeployment(tally.Copy(o.Plan.Deployment))
		}
		for _, u := range o.Plan.DeploymentUpdates {
			d := tally.Copy(tx.Deployment(u.DeploymentID))
			d.Status, d.StatusDescription = u.Status, u.StatusDescription
			tx.PutDeployment(d)
		}
		for _, list := range o.Plan.NodeUpdate {
			for _, s := range list {
				stopped := *s
				stopped.Job = tx.Alloc(s.ID).Job
				tx.PutAlloc(&stopped)
			}
		}
		for _, list := range o.Plan.NodeAllocation {
			for _, a := range list {
				put := *a
				if put.Job == nil {
					put.Job = o.Plan.Job
				}
				before := tx.Alloc(put.ID)
				tx.PutAlloc(&put)
				tally.AllocChanged(tx, before, &put)
			}
		}
		for _, e := range o.FollowUps {
			tx.PutEval(e)
		}
	})
	return o
}

// each changes every live allocation of the job.
func (c *cluster) each(id string, change func(*api.Allocation)) {
	c.write(func(tx *state.Txn) {
		for a := range c.store.Read().AllocsByJob("default", id) {
			if !a.Terminal() {
				next := *a
				next.ModifyTime = c.now.UnixNano()
				change(&next)
				tx.PutAlloc(&next)
				tally.AllocChanged(tx, a, &next)
			}
		}
	})
}

func (c *cluster) setRunning(id string) {
	c.each(id, func(a *api.Allocation) { a.ClientStatus = api.AllocClientStatusRunning })
}

func (c *cluster) live(id string) map[string]*api.Allocation {
	m := map[string]*api.Allocation{}
	for a := range c.store.Read().AllocsByJob("default", id) {
		if !a.Terminal() {
			m[a.Name] = a
		}
	}
	return m
}

func placed(o *scheduler.Output) []*api.Allocation {
	var all []*api.Allocation
	for _, list := range o.Plan.NodeAllocation {
		for _, a := range list {
			if a.CreateIndex == 0 {
				all = append(all, a)
			}
		}
	}
	return all
}

func stopped(o *scheduler.Output) []*api.Allocation {
	var all []*api.Allocation
	for _, list := range o.Plan.NodeUpdate {
		all = append(all, list...)
	}
	return all
}
