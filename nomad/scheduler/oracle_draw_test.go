package scheduler_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

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
	// volume is the kind of CSI volume: shared by all, one for a single user, or one per allocation.
	volume string
	// rules of the job, the group and its task.
	spreads    [2][]*api.Spread
	affinities [3][]*api.Affinity
	sticky     bool
	kind       string
	// work is what the task does: another one needs new allocations.
	work int
}

// Kinds of CSI volumes.
const (
	sharedVolume  = "shared"
	singleVolume  = "single"
	volumePerName = "own"
)

func drawCluster(t *rapid.T, c *cluster) {
	for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
		c.node(fmt.Sprintf("n%d", i), func(n *api.Node) {
			n.NodeResources.Memory.MemoryMB = rapid.Int64Range(0, 1000).Draw(t, "memory")
			n.ReservedResources = &api.NodeReservedResources{
				Cpu:      api.NodeReservedCpuResources{CpuShares: rapid.Uint64Range(0, 200).Draw(t, "reserved")},
				Networks: api.NodeReservedNetworkResources{ReservedHostPorts: rapid.SampledFrom([]string{"", "80", "79-81"}).Draw(t, "host ports")},
			}
			n.NodeMaxAllocs = rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "allocations at most")
			n.Meta = map[string]string{"rack": rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "rack")}
			if zone := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "zone"); zone != "" {
				n.Meta["zone"] = zone
			}
			drawPlugin(t, n)
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

// drawPlugin gives the node a CSI plugin, or none.
func drawPlugin(t *rapid.T, n *api.Node) {
	kind := rapid.SampledFrom([]string{"healthy", "healthy", "healthy", "sick", "none"}).Draw(t, "plugin")
	if kind == "none" {
		return
	}
	var segments map[string]string
	if zone := n.Meta["zone"]; zone != "" {
		segments = map[string]string{"zone": zone}
	}
	plugin(rapid.Int64Range(0, 2).Draw(t, "volumes at most"), segments)(n)
	n.CSINodePlugins["p"].Healthy = kind == "healthy"
}

// drawVolumes makes the volumes that jobs may ask for, or not.
func drawVolumes(t *rapid.T, c *cluster) {
	modes := map[string]api.AccessMode{sharedVolume: api.AccessMultiNodeMultiWriter, singleVolume: api.AccessSingleNodeSingle}
	for i := range 8 {
		modes[fmt.Sprintf("%s[%d]", volumePerName, i)] = api.AccessSingleNodeWriter
	}
	for _, id := range slices.Sorted(maps.Keys(modes)) {
		zone := rapid.SampledFrom([]string{"", "", "", "x", "y", "missing"}).Draw(t, "volume")
		if zone == "missing" {
			continue
		}
		c.volume(id, modes[id], func(v *api.Volume) {
			if zone != "" {
				v.Provision.Topologies = []*api.Topology{{Segments: map[string]string{"zone": zone}}}
			}
		})
	}
}

func drawDevices(t *rapid.T, n *api.Node, model string) {
	d := &api.NodeDeviceResource{Type: "gpu", Attributes: map[string]*api.Attribute{"memory": {IntVal: new(rapid.SampledFrom([]int64{2, 4}).Draw(t, "gib")), Unit: "GiB"}}}
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

// drawWishes draws what matters from the second allocation on.
func drawWishes(t *rapid.T, k *oracleAsk) {
	k.kind = rapid.SampledFrom([]string{api.JobTypeService, api.JobTypeService, api.JobTypeBatch}).Draw(t, "kind")
	k.sticky = rapid.IntRange(0, 3).Draw(t, "sticky") == 0
	k.volume = rapid.SampledFrom([]string{"", "", sharedVolume, volumePerName, volumePerName, singleVolume}).Draw(t, "csi")
	for range rapid.SampledFrom([]int{0, 0, 1, 1, 2}).Draw(t, "spreads") {
		at := rapid.IntRange(0, 1).Draw(t, "level")
		k.spreads[at] = append(k.spreads[at], drawSpread(t))
	}
	for range rapid.SampledFrom([]int{0, 0, 1, 2, 3}).Draw(t, "affinities") {
		at := rapid.IntRange(0, 2).Draw(t, "level")
		f := &api.Affinity{LTarget: "${meta.rack}", RTarget: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "liked"), Operand: "="}
		if rapid.Bool().Draw(t, "zone") {
			f = &api.Affinity{LTarget: "${meta.zone}", Operand: "is_set"}
		}
		f.Weight = int8(rapid.SampledFrom([]int{-100, -50, -1, 1, 50, 100}).Draw(t, "weight"))
		k.affinities[at] = append(k.affinities[at], f)
	}
}

func drawSpread(t *rapid.T) *api.Spread {
	s := &api.Spread{Attribute: "${meta.rack}", Weight: int8(rapid.IntRange(1, 100).Draw(t, "weight"))}
	values := []string{"a", "b", "c"}
	if rapid.Bool().Draw(t, "zones") {
		s.Attribute, values = "${meta.zone}", []string{"x", "y"}
	}
	rest := 100
	if rapid.Bool().Draw(t, "targets") {
		for _, v := range values {
			if percent := rapid.IntRange(0, rest).Draw(t, "percent"); percent > 0 && rapid.Bool().Draw(t, "named") {
				s.SpreadTarget = append(s.SpreadTarget, &api.SpreadTarget{Value: v, Percent: uint8(percent)})
				rest -= percent
			}
		}
	}
	return s
}

func (k oracleAsk) job(id string, count int) *api.Job {
	return job(id, cmp.Or(k.kind, api.JobTypeService), count, func(j *api.Job) {
		g := j.TaskGroups[0]
		j.Spreads, g.Spreads = k.spreads[0], k.spreads[1]
		j.Affinities, g.Affinities, g.Tasks[0].Affinities = k.affinities[0], k.affinities[1], k.affinities[2]
		g.Tasks[0].Env = map[string]string{"work": fmt.Sprint(k.work)}
		g.EphemeralDisk = &api.EphemeralDisk{Sticky: k.sticky}
		g.ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, Delay: 5 * time.Second, DelayFunction: "constant"}
		switch k.volume {
		case sharedVolume:
			withVolume(sharedVolume, func(r *api.VolumeRequest) { r.AccessMode = string(api.AccessMultiNodeMultiWriter) })(j)
		case singleVolume:
			withVolume(singleVolume, func(r *api.VolumeRequest) { r.AccessMode = string(api.AccessSingleNodeSingle) })(j)
		case volumePerName:
			withVolume(volumePerName, func(r *api.VolumeRequest) { r.PerAlloc = true })(j)
		}
		g.Tasks[0].Resources = &api.Resources{CPU: k.cpu, MemoryMB: k.memory, Cores: k.cores, Devices: k.devices, NUMA: &api.NUMAResource{Affinity: k.numa}}
		if len(k.static)+k.dynamic > 0 {
			net := &api.NetworkResource{ReservedPorts: k.static}
			for i := range k.dynamic {
				net.DynamicPorts = append(net.DynamicPorts, api.Port{Label: fmt.Sprint("d", i), To: -1})
			}
			g.Networks = []*api.NetworkResource{net}
		}
		if k.write != "" {
			if g.Volumes == nil {
				g.Volumes = map[string]*api.VolumeRequest{}
			}
			g.Volumes["v"] = &api.VolumeRequest{Name: "v", Type: api.VolumeTypeHost, Source: "data", AccessMode: k.write}
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
