package scheduler_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/scheduler/rank"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// The oracle knows the rules by brute force: after a plan no node has more than it can hold and none
// holds what it may not; if something was not placed, no node could take it; and no node was better.

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
	writers     []string
}

// look counts everything on the node except one allocation.
func look(tx *state.Txn, n *api.Node, except string) *scene {
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
	for a := range tx.Allocs("*") {
		if a.ID != except && !a.ClientTerminal() {
			s.count(a, tx.Node(a.NodeID))
		}
	}
	return s
}

func (s *scene) count(a *api.Allocation, on *api.Node) {
	if a.JobID == "asked" && on.Meta["rack"] == s.node.Meta["rack"] {
		s.onRack++
	}
	if on.ID != s.node.ID {
		return
	}
	if a.JobID == "asked" {
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
		(len(ask.Constraints) == 0 || g.Attributes["memory"].IntVal > 2)
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

// score is what the first allocation of the ask is worth on the node.
func (k oracleAsk) score(s *scene) float64 {
	sum, parts, total := rank.BinPack(s.total, s.used.Add(k.amount(s))), 1.0, 0.0
	for _, d := range k.devices {
		if len(d.Affinities) > 0 {
			total += 80
		}
	}
	if total > 0 {
		best, _ := s.bestDevices(k.devices)
		sum, parts = sum+best/total, parts+1
	}
	return sum / parts
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

func TestPlansAreLegalAndComplete(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newCluster(t)
		drawCluster(rt, c)
		filler := drawAsk(rt)
		filler.hosts, filler.perRack, filler.rack = false, 0, ""
		f := filler.job("filler", rapid.IntRange(0, 4).Draw(rt, "fillers"))
		c.register(f)
		c.run(f)
		ask := drawAsk(rt)
		j := ask.job("asked", rapid.IntRange(1, 6).Draw(rt, "count"))
		c.register(j)

		best := math.Inf(-1)
		before := c.store.Read()
		for n := range before.Nodes() {
			if s := look(before, n, ""); ask.refusal(s) == "" {
				best = max(best, ask.score(s))
			}
		}
		roster := fleet.Build(before.Index(), before.Nodes(), before.Allocs("*")).Edit()
		o := c.run(j)
		tx := c.store.Read()
		for _, a := range placed(o) {
			s := look(tx, tx.Node(a.NodeID), a.ID)
			if why := ask.refusal(s); why != "" {
				rt.Fatalf("%s was placed on %s against the rules: %s", a.Name, a.NodeID, why)
			}
			if why := ask.wrong(s, a); why != "" {
				rt.Fatalf("%s got on %s: %s", a.Name, a.NodeID, why)
			}
			if a.Name == "asked.g[0]" {
				if got := ask.score(look(before, before.Node(a.NodeID), "")); got < best-1e-9 {
					rt.Fatalf("%s has score %v, the best is %v", a.NodeID, got, best)
				}
			}
			i, load := roster.Find(a.NodeID), fleet.LoadOf(j.TaskGroups[0], a.AllocatedResources)
			if why := roster.Row(i).Refuses(load, func(fleet.HostPort) bool { return false }); why != "" {
				rt.Fatalf("the verifier refuses %s on %s: %s", a.Name, a.NodeID, why)
			}
			roster.Add(i, a.ID, load)
		}
		missing := j.TaskGroups[0].Count - len(placed(o))
		if missing != o.Queued["g"] || (missing > 0) != (o.Failed["g"] != nil) {
			rt.Fatalf("%d missing, %d queued, metric %v", missing, o.Queued["g"], o.Failed["g"])
		}
		if missing == 0 {
			return
		}
		for n := range tx.Nodes() {
			if ask.refusal(look(tx, n, "")) == "" {
				rt.Fatalf("node %s could take what was not placed: %+v", n.ID, o.Failed["g"])
			}
		}
		if m := o.Failed["g"]; m.NodesFiltered+m.NodesExhausted != m.NodesEvaluated || m.CoalescedFailures != missing-1 {
			rt.Fatalf("metric does not add up: %+v", m)
		}
	})
}
