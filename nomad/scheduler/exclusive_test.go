package scheduler_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// twoSockets has eight cores, the even ones on NUMA node 0.
func twoSockets(n *api.Node) {
	topology := &api.NodeTopology{Nodes: []int{0, 1}}
	for id := range uint16(8) {
		n.NodeResources.Cpu.ReservableCpuCores = append(n.NodeResources.Cpu.ReservableCpuCores, id)
		topology.Cores = append(topology.Cores, &api.NodeCore{ID: id, NodeID: uint8(id % 2), BaseSpeed: 400 + 50*uint64(id%2)})
	}
	n.NodeResources.Cpu.TotalCpuCores = 8
	n.NodeResources.Processors.Topology = topology
}

func coresJob(id, numa string, counts ...int) *api.Job {
	return job(id, api.JobTypeService, 1, func(j *api.Job) {
		g := j.TaskGroups[0]
		g.Tasks = nil
		for i, n := range counts {
			t := &api.Task{Name: fmt.Sprint("t", i), Driver: "mock", Resources: &api.Resources{Cores: n, MemoryMB: 10, NUMA: &api.NUMAResource{Affinity: numa}}}
			if i > 0 {
				t.Lifecycle = &api.TaskLifecycle{Hook: api.TaskLifecycleHookPoststop}
			}
			g.Tasks = append(g.Tasks, t)
		}
	})
}

func coresOf(a *api.Allocation, task string) ([]uint16, int64) {
	cpu := a.AllocatedResources.Tasks[task].Cpu
	return cpu.ReservedCores, cpu.CpuShares
}

func TestCoresAreLowestOrOfOneNUMANode(t *testing.T) {
	c := newCluster(t)
	c.node("n", twoSockets)
	for _, step := range []struct {
		numa string
		n    int
		want []uint16
		mhz  int64
	}{
		{"none", 3, []uint16{0, 1, 2}, 1250},
		{"require", 3, []uint16{3, 5, 7}, 1350},
		{"prefer", 1, []uint16{4}, 400},
		{"require", 2, nil, 0},
		{"prefer", 1, []uint16{6}, 400},
		{"none", 1, nil, 0},
	} {
		j := coresJob(c.id(), step.numa, step.n)
		c.register(j)
		o := c.run(j)
		if step.want == nil {
			if m := o.Failed["g"]; m == nil || m.DimensionExhausted["cores"] != 1 {
				t.Errorf("%+v: failed %+v", step, m)
			}
			continue
		}
		if len(placed(o)) != 1 {
			t.Fatalf("%+v: %+v", step, o.Failed["g"])
		}
		if ids, mhz := coresOf(placed(o)[0], "t0"); !slices.Equal(ids, step.want) || mhz != step.mhz {
			t.Errorf("%+v: got cores %v with %d MHz", step, ids, mhz)
		}
	}
}

// Cores are held from the start of an allocation to its end: tasks that never run together do not share them.
func TestCoresOfAllTasksAreSummed(t *testing.T) {
	c := newCluster(t)
	c.node("n", twoSockets)
	j := coresJob("j", "none", 4, 4)
	c.register(j)
	o := c.run(j)
	if len(placed(o)) != 1 {
		t.Fatalf("%+v", o.Failed["g"])
	}
	first, _ := coresOf(placed(o)[0], "t0")
	second, _ := coresOf(placed(o)[0], "t1")
	if len(slices.Compact(slices.Sorted(slices.Values(slices.Concat(first, second))))) != 8 {
		t.Errorf("cores %v and %v", first, second)
	}
	k := coresJob("k", "none", 5, 4)
	c.register(k)
	if o := c.plan(k); len(placed(o)) != 0 {
		t.Error("nine cores of eight were given")
	}
	// The MHz of the cores are gone for those who ask for CPU.
	l := job("l", api.JobTypeService, 1, func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = 601 })
	c.register(l)
	if o := c.plan(l); o.Failed["g"] == nil || o.Failed["g"].DimensionExhausted["cpu"] != 1 {
		t.Errorf("%+v", o.Failed["g"])
	}
}

func TestPortsPerAddress(t *testing.T) {
	c := newCluster(t)
	c.node("n", func(n *api.Node) {
		n.NodeResources.NodeNetworks = []*api.NodeNetwork{{Device: "eth0", Addresses: []*api.NodeNetworkAddress{
			{Alias: "default", Address: "10.0.0.1"},
			{Alias: "default", Address: "2001:db8::1"},
			{Alias: "public", Address: "192.0.2.1", ReservedPorts: "22"},
			{Alias: "public", Address: "192.0.2.2"},
			{Alias: "same", Address: "10.0.0.1"},
		}}}
		n.HostNetworks = map[string]*api.HostNetworkInfo{"empty": {Name: "empty", Interface: "eth9"}}
		n.Meta = map[string]string{"net": "public"}
	})
	for _, step := range []struct {
		port api.Port
		want string
	}{
		{api.Port{Value: 80}, "10.0.0.1:80"},
		{api.Port{Value: 80}, "network: reserved port collision p=80"},
		{api.Port{Value: 80, HostNetwork: "same"}, "network: reserved port collision p=80"},
		{api.Port{Value: 80, IgnoreCollision: true}, "10.0.0.1:80"},
		{api.Port{Value: 80, HostNetwork: "public"}, "192.0.2.1:80"},
		{api.Port{Value: 80, HostNetwork: "${meta.net}"}, "192.0.2.2:80"},
		{api.Port{Value: 80, HostNetwork: "public"}, "network: reserved port collision p=80"},
		{api.Port{Value: 22, HostNetwork: "public"}, "192.0.2.2:22"},
		{api.Port{Value: 22, HostNetwork: "empty"}, "network: no addresses available for empty network"},
	} {
		step.port.Label = "p"
		j := job(c.id(), api.JobTypeService, 1, func(j *api.Job) {
			j.TaskGroups[0].Tasks[0].Resources.CPU = 1
			j.TaskGroups[0].Networks = []*api.NetworkResource{{ReservedPorts: []api.Port{step.port}}}
		})
		c.register(j)
		o, got := c.run(j), ""
		if len(placed(o)) == 1 {
			p := placed(o)[0].AllocatedResources.Shared.Ports[0]
			got = fmt.Sprint(p.HostIP, ":", p.Value)
		} else {
			for dimension := range o.Failed["g"].DimensionExhausted {
				got = dimension
			}
		}
		if got != step.want {
			t.Errorf("%+v: %s", step.port, got)
		}
	}
}

func TestDynamicPortsRunOutPerAddress(t *testing.T) {
	c := newCluster(t)
	c.node("n", func(n *api.Node) { n.NodeResources.MinDynamicPort, n.NodeResources.MaxDynamicPort = 30000, 30003 })
	j := job("j", api.JobTypeService, 3, func(j *api.Job) {
		j.TaskGroups[0].Tasks[0].Resources.CPU = 1
		j.TaskGroups[0].Networks = []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "a", To: -1}, {Label: "b", To: 8}}}}
	})
	c.register(j)
	o := c.run(j)
	if len(placed(o)) != 1 || o.Failed["g"] == nil || o.Failed["g"].DimensionExhausted["network: dynamic port selection failed"] != 1 {
		t.Fatalf("%d placed, failed %+v", len(placed(o)), o.Failed["g"])
	}
	if p := placed(o)[0].AllocatedResources.Shared.Ports; p[0].To != p[0].Value || p[1].To != 8 || p[0].Value == p[1].Value {
		t.Errorf("ports %+v", p)
	}
}

func TestDevicesRunOut(t *testing.T) {
	c := newCluster(t)
	c.node("n", func(n *api.Node) {
		n.NodeResources.Devices = []*api.NodeDeviceResource{
			{Vendor: "v", Type: "gpu", Name: "small", Instances: []*api.NodeDevice{{ID: "s1", Healthy: true}}},
			{Vendor: "v", Type: "gpu", Name: "big", Instances: []*api.NodeDevice{{ID: "b1", Healthy: true}, {ID: "b2", Healthy: true}}},
		}
	})
	j := job("j", api.JobTypeService, 4, func(j *api.Job) {
		j.TaskGroups[0].Tasks[0].Resources.Devices = []*api.RequestedDevice{{
			Name: "gpu", Count: 1, Affinities: []*api.Affinity{{LTarget: "${device.model}", RTarget: "big", Weight: 10}},
		}}
	})
	c.register(j)
	o := c.run(j)
	var got []string
	for _, a := range placed(o) {
		got = append(got, a.AllocatedResources.Tasks["t"].Devices[0].DeviceIDs...)
	}
	if !slices.Equal(got, []string{"b1", "b2", "s1"}) || o.Failed["g"] == nil || o.Failed["g"].DimensionExhausted["devices: no devices match request"] != 1 {
		t.Fatalf("devices %v, failed %+v", got, o.Failed["g"])
	}
}

func TestMemoryMaxIsRecordedWhenOversubscriptionIsOn(t *testing.T) {
	for on, want := range map[bool]int64{false: 0, true: 600} {
		c := newCluster(t)
		c.nodes(1)
		c.write(func(tx *state.Txn) {
			s := *tx.SchedulerConfig()
			s.MemoryOversubscriptionEnabled = on
			tx.PutSchedulerConfig(&s)
		})
		j := job("j", api.JobTypeService, 1, func(j *api.Job) {
			j.TaskGroups[0].Tasks[0].Resources = &api.Resources{CPU: 1, MemoryMB: 100, MemoryMaxMB: 500, SecretsMB: 100}
		})
		c.register(j)
		if m := placed(c.run(j))[0].AllocatedResources.Tasks["t"].Memory; m.MemoryMB != 200 || m.MemoryMaxMB != want {
			t.Errorf("oversubscription %v: %+v", on, m)
		}
	}
}
