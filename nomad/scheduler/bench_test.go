package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func benchCluster(b *testing.B, nodes int) *cluster {
	b.Helper()
	c := newCluster(b)
	c.write(func(tx *state.Txn) {
		for i := range nodes {
			n := &api.Node{
				ID: fmt.Sprintf("%08d-0000-0000-0000-000000000000", i), Name: fmt.Sprint("n", i), Datacenter: "dc1",
				NodePool: "default", Status: api.NodeStatusReady, SchedulingEligibility: api.NodeSchedulingEligible,
				ComputedClass: fmt.Sprint("c", i%10),
				Attributes:    map[string]string{"kernel.name": "linux", "cpu.arch": "amd64"},
				Meta:          map[string]string{"rack": fmt.Sprint("r", i%20), "ssd": fmt.Sprint(i % 2)},
				Drivers:       map[string]*api.DriverInfo{"mock": {Detected: true, Healthy: true}},
				NodeResources: &api.NodeResources{
					Cpu: api.NodeCpuResources{CpuShares: 64_000}, Memory: api.NodeMemoryResources{MemoryMB: 128_000},
					Disk: api.NodeDiskResources{DiskMB: 1_000_000}, Networks: []*api.NetworkResource{{IP: "10.0.0.1"}},
				},
			}
			plugin(100, nil)(n)
			tx.PutNode(n)
		}
	})
	return c
}

func BenchmarkSchedule(b *testing.B) {
	constraint := func(j *api.Job) {
		j.Constraints = []*api.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux"}, {LTarget: "${attr.cpu.arch}", RTarget: "^amd", Operand: "regexp"}}
	}
	for _, bench := range []struct {
		name   string
		nodes  int
		count  int
		kind   string
		change func(*api.Job)
	}{
		{"plain", 5000, 1000, api.JobTypeService, constraint},
		{"plain", 10_000, 10_000, api.JobTypeService, constraint},
		{"one", 10_000, 1, api.JobTypeService, constraint},
		{"affinity", 10_000, 1000, api.JobTypeService, func(j *api.Job) {
			j.Affinities = []*api.Affinity{{LTarget: "${meta.ssd}", RTarget: "1", Weight: 50}}
		}},
		{"spread", 1000, 1000, api.JobTypeService, func(j *api.Job) { j.Spreads = []*api.Spread{{Attribute: "${meta.rack}", Weight: 100}} }},
		{"property", 10_000, 1000, api.JobTypeService, func(j *api.Job) {
			j.Constraints = []*api.Constraint{{LTarget: "${meta.rack}", RTarget: "1000000", Operand: api.ConstraintDistinctProperty}}
		}},
		{"ports", 10_000, 10_000, api.JobTypeService, func(j *api.Job) {
			j.TaskGroups[0].Networks = []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "a"}, {Label: "b"}}}}
		}},
		{"csi", 5000, 1000, api.JobTypeService, withVolume("v", func(r *api.VolumeRequest) { r.AccessMode = string(api.AccessMultiNodeMultiWriter) })},
		{"system", 10_000, 1, api.JobTypeSystem, constraint},
	} {
		b.Run(fmt.Sprintf("%s/nodes=%d/count=%d", bench.name, bench.nodes, bench.count), func(b *testing.B) {
			c := benchCluster(b, bench.nodes)
			c.volume("v", api.AccessMultiNodeMultiWriter)
			j := job("j", bench.kind, bench.count, bench.change)
			c.register(j)
			tx := c.store.Read()
			f := fleet.Build(tx.Index(), tx.Nodes(), tx.Allocs(api.AllNamespaces))
			e := &api.Evaluation{ID: c.id(), Namespace: "default", JobID: "j", Type: bench.kind}
			total := 0
			b.ReportAllocs()
			for b.Loop() {
				o := scheduler.Schedule(scheduler.Input{View: tx, Fleet: f, Eval: e, Now: c.now, NewID: c.id, Seed: 7})
				total += len(placed(o))
			}
			if total == 0 {
				b.Fatal("nothing was placed")
			}
			b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "placements/s")
		})
	}
}
