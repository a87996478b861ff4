package scheduler_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/cputimetest"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// benchNode is the shape of every node: 4 cores of 3,500 MHz, 32 GB, one of 50 racks in 2 datacenters.
func benchNode(i int) *api.Node {
	n := &api.Node{
		ID: fmt.Sprintf("%08d-0000-0000-0000-000000000000", i), Name: fmt.Sprint("n", i), Datacenter: fmt.Sprint("dc-", i%2+1),
		NodePool: api.NodePoolDefault, Status: api.NodeStatusReady, SchedulingEligibility: api.NodeSchedulingEligible,
		NodeClass: "linux-medium", ComputedClass: fmt.Sprint("c", i%50),
		Attributes: map[string]string{"kernel.name": "linux", "cpu.arch": "amd64", "unique.hostname": fmt.Sprint("n", i), "version": "1.2.3"},
		Meta:       map[string]string{"rack": fmt.Sprint("r", i%50), "ssd": fmt.Sprint(i % 2)},
		Drivers:    map[string]*api.DriverInfo{"mock": {Detected: true, Healthy: true}},
		NodeResources: &api.NodeResources{
			Cpu: api.NodeCpuResources{CpuShares: 14_000}, Memory: api.NodeMemoryResources{MemoryMB: 32_000},
			Disk:     api.NodeDiskResources{DiskMB: 100 << 10},
			Networks: []*api.NetworkResource{{Mode: "host", Device: "eth0", IP: "10.0.0.1"}},
		},
	}
	plugin(1<<20, map[string]string{"rack": n.Meta["rack"]})(n)
	n.CSINodePlugins["p"].RequiresControllerPlugin = true
	if i%50 == 0 { // a controller in each fiftieth
		n.CSIControllerPlugins = map[string]*api.CSIInfo{"p": {
			PluginID: "p", Healthy: true, RequiresControllerPlugin: true, ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: true},
		}}
	}
	return n
}

func benchCluster(b testing.TB, nodes int) *cluster {
	b.Helper()
	c := newCluster(b)
	c.write(func(tx *state.Txn) {
		for i := range nodes {
			tx.PutNode(benchNode(i))
		}
	})
	return c
}

// fill puts n allocations of another job, of 50 MHz each, on every node.
func (c *cluster) fill(nodes, n, priority int) { c.fillWith(nodes, n, priority, 50) }

func (c *cluster) fillWith(nodes, n, priority int, mhz int64) {
	other := benchJob("other", api.JobTypeService, n*nodes)
	other.Priority = priority
	c.register(other)
	c.write(func(tx *state.Txn) {
		stored := tx.Job("default", "other")
		for i := range nodes * n {
			tx.PutAlloc(&api.Allocation{
				ID: c.id(), Namespace: "default", JobID: "other", Job: stored, TaskGroup: "g", Name: fmt.Sprintf("other.g[%d]", i),
				NodeID: benchNode(i % nodes).ID, DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusRunning,
				AllocatedResources: &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{"t": {
					Cpu: api.AllocatedCpuResources{CpuShares: mhz}, Memory: api.AllocatedMemoryResources{MemoryMB: 50},
				}}},
			})
		}
	})
}

// benchJob asks for 50 MHz and 50 MB.
func benchJob(id, kind string, count int, change ...func(*api.Job)) *api.Job {
	return job(id, kind, count, append(change, func(j *api.Job) {
		j.TaskGroups[0].Tasks[0].Resources = &api.Resources{CPU: 50, MemoryMB: 50}
		j.TaskGroups[0].EphemeralDisk = &api.EphemeralDisk{SizeMB: 10}
	})...)
}

// Changes of the job that make the variants.
var (
	constrained = func(j *api.Job) {
		j.Constraints = []*api.Constraint{
			{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="},
			{LTarget: "${attr.cpu.arch}", RTarget: "^amd", Operand: "regexp"},
		}
	}
	// racked allows 25 of the 50 racks, and with them half of the computed classes.
	racked = func(j *api.Job) {
		var racks []string
		for i := range 25 {
			racks = append(racks, fmt.Sprint("r", i))
		}
		j.Constraints = []*api.Constraint{{LTarget: "${meta.rack}", RTarget: strings.Join(racks, ","), Operand: api.ConstraintSetContainsAny}}
	}
	attracted = func(j *api.Job) {
		j.Affinities = []*api.Affinity{{LTarget: "${node.datacenter}", RTarget: "dc-1", Operand: "=", Weight: 50}}
	}
	spreadOut  = func(j *api.Job) { j.Spreads = []*api.Spread{{Attribute: "${meta.rack}", Weight: 100}} }
	propertied = func(j *api.Job) {
		j.Constraints = []*api.Constraint{{LTarget: "${meta.rack}", RTarget: "1000000", Operand: api.ConstraintDistinctProperty}}
	}
	apart  = func(j *api.Job) { j.Constraints = []*api.Constraint{{Operand: api.ConstraintDistinctHosts}} }
	unique = func(j *api.Job) {
		j.Constraints = []*api.Constraint{{LTarget: "${attr.unique.hostname}", RTarget: "^n[0-9]*[02468]$", Operand: "regexp"}}
	}
	ported = func(j *api.Job) {
		j.TaskGroups[0].Networks = []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "a"}, {Label: "b"}}}}
	}
	shared   = withVolume("v", func(r *api.VolumeRequest) { r.AccessMode = string(api.AccessMultiNodeMultiWriter) })
	perAlloc = withVolume("v", func(r *api.VolumeRequest) {
		r.PerAlloc, r.AccessMode = true, string(api.AccessSingleNodeWriter)
	})
)

func both(changes ...func(*api.Job)) func(*api.Job) {
	return func(j *api.Job) {
		for _, change := range changes {
			change(j)
		}
	}
}

// BenchmarkSchedule prints placements per second of one evaluation, and what it allocates per placement.
// The plan is not carried out.
func BenchmarkSchedule(b *testing.B) {
	for _, bench := range []struct {
		name   string
		nodes  int
		count  int
		change func(*api.Job)
		filled int
	}{
		{"constraint", 1000, 1000, constrained, 0},
		{"constraint", 5000, 1000, constrained, 0},
		{"constraint", 10_000, 1000, constrained, 0},
		{"constraint", 10_000, 10_000, constrained, 0},
		{"constraint", 10_000, 1, constrained, 0},
		{"racks", 5000, 1000, racked, 0},
		{"racks", 10_000, 1000, racked, 0},
		{"racks", 10_000, 10_000, racked, 0},
		{"affinity", 5000, 1000, attracted, 0},
		{"affinity", 10_000, 1000, attracted, 0},
		{"spread", 10_000, 1000, spreadOut, 0},
		{"spread", 1000, 10_000, spreadOut, 0},
		{"spread", 1000, 1000, spreadOut, 10},
		{"spread+affinity", 10_000, 1000, both(constrained, attracted, spreadOut), 0},
		{"property", 10_000, 1000, propertied, 0},
		{"hosts", 10_000, 1000, apart, 0},
		{"unique", 10_000, 1000, unique, 0},
		{"ports", 10_000, 10_000, ported, 0},
		{"csi", 5000, 1000, shared, 0},
		{"csi-per-alloc", 1000, 1000, perAlloc, 0},
		{"filled", 1000, 1000, nil, 50},
		{"filled", 1000, 1000, nil, 200},
	} {
		b.Run(fmt.Sprintf("%s/nodes=%d/count=%d/filled=%d", bench.name, bench.nodes, bench.count, bench.filled), func(b *testing.B) {
			c := benchCluster(b, bench.nodes)
			if bench.filled > 0 {
				c.fill(bench.nodes, bench.filled, 50)
			}
			j := benchJob("j", api.JobTypeService, bench.count)
			if bench.change != nil {
				bench.change(j)
			}
			c.volumesOf(j, bench.count)
			measure(b, c, j, bench.count)
		})
	}
	for _, nodes := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("again/nodes=%d", nodes), func(b *testing.B) { again(b, benchCluster(b, nodes)) })
	}
	b.Run("system/nodes=10000", func(b *testing.B) {
		measure(b, benchCluster(b, 10_000), benchJob("j", api.JobTypeSystem, 1, constrained), 10_000)
	})
}

// volumesOf creates the volumes that the job asks for. A shared one can be used in 25 of the 50 racks.
func (c *cluster) volumesOf(j *api.Job, count int) {
	for _, r := range j.TaskGroups[0].Volumes {
		if !r.PerAlloc {
			c.volume(r.Source, api.AccessMultiNodeMultiWriter, func(v *api.Volume) {
				for i := range 25 {
					v.Provision.Topologies = append(v.Provision.Topologies, &api.Topology{Segments: map[string]string{"rack": fmt.Sprint("r", i)}})
				}
			})
			continue
		}
		for i := range count {
			c.volume(fmt.Sprintf("%s[%d]", r.Source, i), api.AccessSingleNodeWriter)
		}
	}
}

// measure schedules the job again and again; every time it must be placed whole.
func measure(b *testing.B, c *cluster, j *api.Job, want int) {
	c.register(j)
	tx := c.store.Read()
	f := fleet.Build(tx.Index(), tx.Nodes(), tx.Allocs(api.AllNamespaces))
	e := &api.Evaluation{ID: c.id(), Namespace: "default", JobID: "j", Type: j.Type, Priority: j.Priority}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	total, used := 0, cputimetest.Process()
	for b.Loop() {
		o := scheduler.Schedule(scheduler.Input{View: tx, Fleet: f, Eval: e, Now: c.now, NewID: c.id, Seed: 7})
		if got := len(placed(o)); got != want {
			b.Fatalf("%d of %d were placed: %+v", got, want, o.Failed["g"])
		}
		total += want
	}
	used = cputimetest.Process() - used
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(used.Microseconds())/float64(total), "cpu-us/placement")
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "placements/s")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(total), "B/placement")
	b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N), "ms/eval")
}

// again schedules jobs with one allocation one after the other, and carries out every plan.
func again(b *testing.B, c *cluster) {
	c.register(benchJob("j", api.JobTypeService, 1, constrained))
	tx := c.store.Read()
	f, memory := fleet.Build(tx.Index(), tx.Nodes(), tx.Allocs(api.AllNamespaces)), &scheduler.RankingCache{}
	e := &api.Evaluation{ID: c.id(), Namespace: "default", JobID: "j", Type: api.JobTypeService, Priority: 50}
	n := 0
	for b.Loop() {
		o := scheduler.Schedule(scheduler.Input{View: tx, Fleet: f, Eval: e, Now: c.now, NewID: c.id, Seed: 7, Rankings: memory})
		edit := f.Edit()
		for _, a := range placed(o) {
			a.Job = o.Plan.Job
			edit.PutAlloc(a)
			n++
		}
		f = edit.Done(f.Index() + 1)
	}
	if n != b.N {
		b.Fatalf("%d of %d were placed", n, b.N)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "placements/s")
}
