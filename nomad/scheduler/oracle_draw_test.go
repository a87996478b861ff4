package scheduler_test

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
)

// oracleAsk is what a drawn job asks for.
type oracleAsk struct {
	cpu, memory, cores int
	numa               string
	devices            []*api.RequestedDevice
	static             []api.Port
	dynamic            int
	rack               string
	hosts              bool
	// perRack is how many may be on one rack; 0 is no limit. wide counts all groups.
	perRack int
	wide    bool
	write   string
}

func drawCluster(t *rapid.T, c *cluster) {
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		c.node(fmt.Sprintf("n%d", i), func(n *api.Node) {
			n.NodeResources.Memory.MemoryMB = rapid.Int64Range(0, 1000).Draw(t, "memory")
			n.ReservedResources = &api.NodeReservedResources{
				Cpu:      api.NodeReservedCpuResources{CpuShares: rapid.Uint64Range(0, 200).Draw(t, "reserved")},
				Networks: api.NodeReservedNetworkResources{ReservedHostPorts: rapid.SampledFrom([]string{"", "80", "79-81"}).Draw(t, "host ports")},
			}
			n.Meta = map[string]string{"rack": rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "rack")}
			n.Status = rapid.SampledFrom([]string{"ready", "ready", "ready", "down"}).Draw(t, "status")
			n.SchedulingEligibility = rapid.SampledFrom([]string{"eligible", "eligible", "ineligible"}).Draw(t, "eligibility")
			drawProcessors(t, n)
			drawNetworks(t, n)
			for _, model := range []string{"nvidia/a", "nvidia/b", "intel/a"} {
				drawDevices(t, n, model)
			}
			n.HostVolumes = map[string]*api.HostVolumeInfo{"data": {ReadOnly: rapid.SampledFrom([]bool{false, false, true}).Draw(t, "volume ro")}}
		})
	}
}

func drawProcessors(t *rapid.T, n *api.Node) {
	cpu := &n.NodeResources.Cpu
	cpu.TotalCpuCores = uint16(rapid.IntRange(0, 6).Draw(t, "cores"))
	cpu.CpuShares = rapid.Int64Range(0, 1000).Draw(t, "cpu")
	topology := &api.NodeTopology{}
	nodes := rapid.IntRange(1, 3).Draw(t, "numa nodes")
	for id := range cpu.TotalCpuCores {
		cpu.ReservableCpuCores = append(cpu.ReservableCpuCores, id)
		topology.Cores = append(topology.Cores, &api.NodeCore{ID: id, NodeID: uint8(int(id) % nodes)})
	}
	if rapid.Bool().Draw(t, "topology") {
		n.NodeResources.Processors.Topology = topology
	}
	if cpu.TotalCpuCores > 0 && rapid.Bool().Draw(t, "core for the host") {
		n.ReservedResources.Cpu.ReservedCpuCores = []uint16{0}
	}
}

func drawNetworks(t *rapid.T, n *api.Node) {
	n.NodeResources.MinDynamicPort, n.NodeResources.MaxDynamicPort = 20000, 20000+rapid.IntRange(1, 4).Draw(t, "dynamic")
	home := &api.NodeNetwork{Device: "eth0", Addresses: []*api.NodeNetworkAddress{{Alias: "default", Address: "10.0.0.1"}, {Alias: "default", Address: "2001:db8::1"}}}
	if rapid.Bool().Draw(t, "second address") {
		home.Addresses = append(home.Addresses, &api.NodeNetworkAddress{Alias: "default", Address: "10.0.0.2"})
	}
	if rapid.Bool().Draw(t, "public") {
		ip := rapid.SampledFrom([]string{"192.0.2.1", "10.0.0.1"}).Draw(t, "public address")
		home.Addresses = append(home.Addresses, &api.NodeNetworkAddress{Alias: "public", Address: ip, ReservedPorts: "90"})
	}
	n.NodeResources.NodeNetworks = []*api.NodeNetwork{home}
}

func drawDevices(t *rapid.T, n *api.Node, model string) {
	d := &api.NodeDeviceResource{Type: "gpu", Attributes: map[string]*api.Attribute{"memory": {IntVal: rapid.SampledFrom([]int64{2, 4}).Draw(t, "gib"), Unit: "GiB"}}}
	d.Vendor, d.Name = model[:len(model)-2], model[len(model)-1:]
	for i := range rapid.IntRange(0, 2).Draw(t, model) {
		d.Instances = append(d.Instances, &api.NodeDevice{ID: fmt.Sprint(model, i), Healthy: rapid.SampledFrom([]bool{true, true, false}).Draw(t, "healthy")})
	}
	if len(d.Instances) > 0 {
		n.NodeResources.Devices = append(n.NodeResources.Devices, d)
	}
}

func drawAsk(t *rapid.T) oracleAsk {
	k := oracleAsk{
		cpu: rapid.IntRange(0, 400).Draw(t, "ask cpu"), memory: rapid.IntRange(0, 400).Draw(t, "ask memory"),
		rack:  rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "want rack"),
		hosts: rapid.Bool().Draw(t, "distinct hosts"), perRack: rapid.IntRange(0, 2).Draw(t, "distinct rack"), wide: rapid.Bool().Draw(t, "of the job"),
		dynamic: rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "dynamic ports"),
		write:   rapid.SampledFrom([]string{"", "", "", "single-node-writer", "single-node-single-writer"}).Draw(t, "write"),
	}
	if rapid.Bool().Draw(t, "wants cores") {
		k.cpu, k.cores = 0, rapid.IntRange(1, 3).Draw(t, "ask cores")
		k.numa = rapid.SampledFrom([]string{"none", "prefer", "require"}).Draw(t, "numa")
	}
	for _, port := range []int{80, 90} {
		if rapid.IntRange(0, 3).Draw(t, "port") == 0 {
			network := rapid.SampledFrom([]string{"", "default", "public"}).Draw(t, "network")
			k.static = append(k.static, api.Port{Label: fmt.Sprint("p", port), Value: port, HostNetwork: network})
		}
	}
	for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "device requests") {
		d := &api.RequestedDevice{Name: rapid.SampledFrom([]string{"gpu", "nvidia/gpu", "nvidia/gpu/b"}).Draw(t, "device"), Count: rapid.Uint64Range(1, 2).Draw(t, "count")}
		if rapid.Bool().Draw(t, "much memory") {
			d.Constraints = []*api.Constraint{{LTarget: "${device.attr.memory}", Operand: ">=", RTarget: "3000 MiB"}}
		}
		if rapid.Bool().Draw(t, "preferred") {
			d.Affinities = []*api.Affinity{{LTarget: "${device.vendor}", RTarget: "intel", Weight: 30}, {LTarget: "${device.model}", RTarget: "b", Weight: -50}}
		}
		k.devices = append(k.devices, d)
	}
	return k
}

func (k oracleAsk) job(id string, count int) *api.Job {
	return job(id, api.JobTypeService, count, func(j *api.Job) {
		g := j.TaskGroups[0]
		g.Tasks[0].Resources = &api.Resources{CPU: k.cpu, MemoryMB: k.memory, Cores: k.cores, Devices: k.devices, NUMA: &api.NUMAResource{Affinity: k.numa}}
		if len(k.static)+k.dynamic > 0 {
			net := &api.NetworkResource{ReservedPorts: k.static}
			for i := range k.dynamic {
				net.DynamicPorts = append(net.DynamicPorts, api.Port{Label: fmt.Sprint("d", i), To: -1})
			}
			g.Networks = []*api.NetworkResource{net}
		}
		if k.write != "" {
			g.Volumes = map[string]*api.VolumeRequest{"v": {Name: "v", Type: api.VolumeTypeHost, Source: "data", AccessMode: k.write}}
		}
		if k.rack != "" {
			g.Constraints = append(g.Constraints, &api.Constraint{LTarget: "${meta.rack}", RTarget: k.rack})
		}
		if k.hosts {
			g.Constraints = append(g.Constraints, &api.Constraint{Operand: api.ConstraintDistinctHosts})
		}
		if k.perRack > 0 {
			c := &api.Constraint{LTarget: "${meta.rack}", Operand: api.ConstraintDistinctProperty, RTarget: fmt.Sprint(k.perRack)}
			if k.wide {
				j.Constraints = append(j.Constraints, c)
			} else {
				g.Constraints = append(g.Constraints, c)
			}
		}
	})
}
