package scheduler_test

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// The scheduler is a function from a snapshot and an evaluation to a plan: time, ids and chance are given to it.
func ExampleSchedule() {
	s := state.New()
	tx := s.Write(10, time.Unix(1_700_000_000, 0))
	for _, name := range []string{"small", "large"} {
		memory := map[string]int64{"small": 512, "large": 8192}[name]
		tx.PutNode(&api.Node{
			ID: name, Name: name, Datacenter: "dc1", NodePool: "default", Status: api.NodeStatusReady,
			SchedulingEligibility: api.NodeSchedulingEligible, ComputedClass: name,
			Drivers: map[string]*api.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
			NodeResources: &api.NodeResources{
				Cpu: api.NodeCpuResources{CpuShares: 4000}, Memory: api.NodeMemoryResources{MemoryMB: memory},
				Disk: api.NodeDiskResources{DiskMB: 100_000},
			},
		})
	}
	tx.PutJob(&api.Job{
		ID: "web", Namespace: "default", Type: "service", Priority: 50, Datacenters: []string{"*"}, NodePool: "default",
		TaskGroups: []*api.TaskGroup{{
			Name: "front", Count: 2,
			Tasks: []*api.Task{{Name: "server", Driver: "raw_exec", Resources: &api.Resources{CPU: 500, MemoryMB: 1024}}},
		}},
	})
	tx.Commit()

	view, ids := s.Read(), 0
	out := scheduler.Schedule(scheduler.Input{
		View: view, Fleet: fleet.Build(view.Index(), view.Nodes(), view.Allocs(api.AllNamespaces)),
		Eval: &api.Evaluation{ID: "e1", Namespace: "default", JobID: "web", Type: "service", Priority: 50, TriggeredBy: api.TriggerJobRegister},
		Now:  time.Unix(1_700_000_001, 0), Seed: 1,
		NewID: func() string { ids++; return fmt.Sprintf("a%d", ids) },
	})
	for node, placed := range out.Plan.NodeAllocation {
		for _, a := range placed {
			fmt.Println(a.Name, "on", node)
		}
	}
	fmt.Println("left over:", out.Queued["front"])
	// Output:
	// web.front[0] on large
	// web.front[1] on large
	// left over: 0
}
