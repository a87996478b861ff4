package scheduler_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
)

// The oracle knows the rules of the specification by brute force, with formulas of its own. It follows a plan
// placement by placement (oracle_replay_test.go): no node has more than it can hold and none holds what it may not;
// no other node was better (oracle_score_test.go); what was not placed could go nowhere.

// scene is one node with what is on it.
type scene struct {
	node        *api.Node
	total       fleet.Amount
	used        fleet.Amount
	mhz         int64
	cores       map[uint16]bool
	devices     map[string]bool
	ports       map[string]map[int]bool // per address
	own, onRack int
	tenants     int
	writers     []string
}

// table is what there is in the middle of a plan: nodes, and the allocations that take capacity.
type table struct {
	nodes  map[string]*api.Node
	allocs []*api.Allocation
	// volumes are those that exist; claims are on volumes, and gone are the allocations that the plan has stopped.
	volumes map[string]*api.Volume
	claims  []oracleClaim
	gone    map[string]bool
	spread  bool // prefer empty nodes
	// quota is the limit of the namespace, or nil.
	quota *api.QuotaResources
}

type oracleClaim struct{ volume, node, alloc string }

// look counts everything on the node.
func (t *table) look(n *api.Node) *scene {
	s := &scene{node: n, cores: map[uint16]bool{}, devices: map[string]bool{}, ports: map[string]map[int]bool{}}
	r := n.NodeResources
	for _, a := range r.NodeNetworks[0].Addresses {
		if s.ports[a.Address] == nil {
			s.ports[a.Address] = map[int]bool{}
		}
		switch n.ReservedResources.Networks.ReservedHostPorts {
		case "80", "79-81":
			s.ports[a.Address][80] = true
		}
		if a.ReservedPorts == "90" {
			s.ports[a.Address][90] = true
		}
	}
	if r.Cpu.TotalCpuCores > 0 {
		s.mhz = r.Cpu.CpuShares / int64(r.Cpu.TotalCpuCores)
	}
	kept := max(int64(n.ReservedResources.Cpu.CpuShares), s.mhz*int64(len(n.ReservedResources.Cpu.ReservedCpuCores)))
	s.total = fleet.Amount{CPU: r.Cpu.CpuShares - kept, MemoryMB: r.Memory.MemoryMB, DiskMB: r.Disk.DiskMB}
	for _, a := range t.allocs {
		s.count(a, t.nodes[a.NodeID])
	}
	return s
}

func (s *scene) count(a *api.Allocation, on *api.Node) {
	ours := a.JobID == "asked" && a.DesiredStatus == api.AllocDesiredStatusRun
	if ours && on.Meta["rack"] == s.node.Meta["rack"] {
		s.onRack++
	}
	if on.ID != s.node.ID {
		return
	}
	s.tenants++
	if ours {
		s.own++
	}
	t := a.AllocatedResources.Tasks["t"]
	s.used = s.used.Add(fleet.Amount{CPU: t.Cpu.CpuShares, MemoryMB: t.Memory.MemoryMB})
	for _, id := range t.Cpu.ReservedCores {
		s.cores[id] = true
	}
	for _, d := range t.Devices {
		for _, id := range d.DeviceIDs {
			s.devices[id] = true
		}
	}
	for _, p := range a.AllocatedResources.Shared.Ports {
		s.ports[p.HostIP][p.Value] = true
	}
	if v := a.Job.TaskGroups[0].Volumes["v"]; v != nil {
		s.writers = append(s.writers, v.AccessMode)
	}
}

// freeCores are those that nobody has, per NUMA node.
func (s *scene) freeCores() map[uint8][]uint16 {
	free := map[uint8][]uint16{}
	for _, id := range s.node.NodeResources.Cpu.ReservableCpuCores {
		if s.cores[id] || slices.Contains(s.node.ReservedResources.Cpu.ReservedCpuCores, id) {
			continue
		}
		free[s.numaOf(id)] = append(free[s.numaOf(id)], id)
	}
	return free
}

func (s *scene) numaOf(id uint16) uint8 {
	if t := s.node.NodeResources.Processors.Topology; t != nil {
		return t.Cores[id].NodeID
	}
	return 0
}

func (s *scene) coresSuffice(k oracleAsk) bool {
	all, most := 0, 0
	for _, ids := range s.freeCores() {
		all, most = all+len(ids), max(most, len(ids))
	}
	if k.numa == "require" {
		return most >= k.cores
	}
	return all >= k.cores
}

// bestDevices is the highest weight with which the requests can be met; false when they cannot.
func (s *scene) bestDevices(asks []*api.RequestedDevice) (float64, bool) {
	if len(asks) == 0 {
		return 0, true
	}
	ask := asks[0]
	best, found := 0.0, false
	for _, g := range s.node.NodeResources.Devices {
		if !matches(ask, g) {
			continue
		}
		var taken []string
		for _, i := range g.Instances {
			if i.Healthy && !s.devices[i.ID] && len(taken) < int(ask.Count) {
				taken = append(taken, i.ID)
			}
		}
		if len(taken) < int(ask.Count) {
			continue
		}
		for _, id := range taken {
			s.devices[id] = true
		}
		rest, ok := s.bestDevices(asks[1:])
		for _, id := range taken {
			delete(s.devices, id)
		}
		if ok && (!found || rest+weightOf(ask, g) > best) {
			best, found = rest+weightOf(ask, g), true
		}
	}
	return best, found
}

func matches(ask *api.RequestedDevice, g *api.NodeDeviceResource) bool {
	full := g.Vendor + "/" + g.Type + "/" + g.Name
	return (ask.Name == g.Type || strings.HasPrefix(full+"/", ask.Name+"/")) &&
		(len(ask.Constraints) == 0 || *g.Attributes["memory"].IntVal > 2)
}

func weightOf(ask *api.RequestedDevice, g *api.NodeDeviceResource) float64 {
	w := 0.0
	if len(ask.Affinities) > 0 && g.Vendor == "intel" {
		w += 30
	}
	if len(ask.Affinities) > 0 && g.Name == "b" {
		w -= 50
	}
	return w
}

// addresses are those of the network in the family of its first one.
func (s *scene) addresses(network string) []string {
	var all []string
	for _, a := range s.node.NodeResources.NodeNetworks[0].Addresses {
		if (network == "" || network == "default") && a.Alias == "default" || network == a.Alias {
			if len(all) == 0 || strings.Contains(all[0], ":") == strings.Contains(a.Address, ":") {
				all = append(all, a.Address)
			}
		}
	}
	return all
}

func (s *scene) portsSuffice(k oracleAsk) bool {
	for _, p := range k.static {
		if !slices.ContainsFunc(s.addresses(p.HostNetwork), func(ip string) bool { return !s.ports[ip][p.Value] }) {
			return false
		}
	}
	free := 0
	for _, ip := range s.addresses("") {
		for p := s.node.NodeResources.MinDynamicPort; p < s.node.NodeResources.MaxDynamicPort; p++ {
			if !s.ports[ip][p] {
				free++
			}
		}
	}
	return free >= k.dynamic
}

func (k oracleAsk) amount(s *scene) fleet.Amount {
	return fleet.Amount{CPU: int64(k.cpu) + s.mhz*int64(k.cores), MemoryMB: int64(k.memory)}
}

// refusal says why the oracle would not put one more of the ask on the node.
func (k oracleAsk) refusal(s *scene) string {
	n := s.node
	_, devices := s.bestDevices(k.devices)
	switch {
	case n.Status != "ready" || n.SchedulingEligibility != "eligible":
		return "node is not available"
	case n.NodeMaxAllocs > 0 && s.tenants >= n.NodeMaxAllocs:
		return "number of allocations"
	case k.cores > 0 && !s.coresSuffice(k):
		return "cores"
	case s.used.Add(k.amount(s)).Exceeds(s.total) != "":
		return s.used.Add(k.amount(s)).Exceeds(s.total)
	case !devices:
		return "devices"
	case !s.portsSuffice(k):
		return "ports"
	case k.rack != "" && n.Meta["rack"] != k.rack:
		return "rack"
	case k.hosts && s.own > 0:
		return "distinct hosts"
	case k.perRack > 0 && s.onRack >= k.perRack:
		return "distinct rack"
	case k.write != "" && n.HostVolumes["data"].ReadOnly:
		return "volume is read-only"
	case k.write != "" && len(s.writers) > 0 && (strings.Contains(k.write, "single-writer") || slices.Contains(s.writers, "single-node-single-writer")):
		return "volume has a writer"
	}
	return ""
}

// wrong says what is wrong with what an allocation was given on a node where it could be.
func (k oracleAsk) wrong(s *scene, a *api.Allocation) string {
	t := a.AllocatedResources.Tasks["t"]
	numa := map[uint8]bool{}
	for _, id := range t.Cpu.ReservedCores {
		if !slices.Contains(s.freeCores()[s.numaOf(id)], id) {
			return fmt.Sprint("core ", id, " is not free")
		}
		numa[s.numaOf(id)] = true
	}
	if len(t.Cpu.ReservedCores) != k.cores || k.numa == "require" && len(numa) > 1 {
		return fmt.Sprint("cores ", t.Cpu.ReservedCores)
	}
	if want := k.amount(s).CPU; t.Cpu.CpuShares != want {
		return fmt.Sprint(t.Cpu.CpuShares, " MHz, want ", want)
	}
	if len(t.Devices) != len(k.devices) {
		return "devices are missing"
	}
	for i, d := range t.Devices {
		at := slices.IndexFunc(s.node.NodeResources.Devices, func(g *api.NodeDeviceResource) bool { return g.Vendor == d.Vendor && g.Name == d.Name })
		if !matches(k.devices[i], s.node.NodeResources.Devices[at]) || len(d.DeviceIDs) != int(k.devices[i].Count) {
			return fmt.Sprint("device ", i, " is ", d)
		}
		for _, id := range d.DeviceIDs {
			healthy := slices.ContainsFunc(s.node.NodeResources.Devices[at].Instances, func(x *api.NodeDevice) bool { return x.ID == id && x.Healthy })
			if !healthy || s.devices[id] {
				return "device " + id + " cannot be given"
			}
			s.devices[id] = true
		}
	}
	for _, p := range a.AllocatedResources.Shared.Ports {
		i := slices.IndexFunc(k.static, func(x api.Port) bool { return x.Label == p.Label })
		network := ""
		if i >= 0 {
			network = k.static[i].HostNetwork
		} else if r := s.node.NodeResources; p.Value < r.MinDynamicPort || p.Value >= r.MaxDynamicPort || p.To != p.Value {
			return fmt.Sprint("dynamic port ", p)
		}
		if !slices.Contains(s.addresses(network), p.HostIP) || s.ports[p.HostIP][p.Value] {
			return fmt.Sprint("port ", p)
		}
		s.ports[p.HostIP][p.Value] = true
	}
	if len(a.AllocatedResources.Shared.Ports) != len(k.static)+k.dynamic {
		return "ports are missing"
	}
	return ""
}
