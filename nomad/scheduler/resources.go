package scheduler

import (
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
)

// Range of dynamic ports of a node that names none; the end is exclusive.
const (
	dynamicMin = 20_000
	dynamicMax = 32_000
)

// resourcesOf is what each allocation of the group gets, apart from ports. All of them share it.
func (r *run) resourcesOf(g *api.TaskGroup) *api.AllocatedResources {
	res := &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{}}
	for _, t := range g.Tasks {
		given := &api.AllocatedTaskResources{}
		if ask := t.Resources; ask != nil {
			given.Cpu.CpuShares = int64(ask.CPU)
			given.Memory.MemoryMB = int64(ask.MemoryMB + ask.SecretsMB)
			if r.oversub {
				given.Memory.MemoryMaxMB = int64(ask.MemoryMaxMB)
			}
		}
		res.Tasks[t.Name] = given
	}
	if g.EphemeralDisk != nil {
		res.Shared.DiskMB = int64(g.EphemeralDisk.SizeMB)
	}
	return res
}

// portsAsk is the network that a group asks for: its first one.
type portsAsk struct {
	network *api.NetworkResource
	static  []api.Port
	dynamic []api.Port
}

func asksOf(g *api.TaskGroup) portsAsk {
	if len(g.Networks) == 0 {
		return portsAsk{}
	}
	a := portsAsk{network: g.Networks[0]}
	for _, p := range slices.Concat(a.network.ReservedPorts, a.network.DynamicPorts) {
		if p.Value > 0 {
			a.static = append(a.static, p)
		} else {
			a.dynamic = append(a.dynamic, p)
		}
	}
	return a
}

// refusal is why the node's ports do not suffice, or "".
func (a *portsAsk) refusal(row *fleet.Row) string {
	for _, p := range a.static {
		if !p.IgnoreCollision && row.Ports.Has(p.Value) {
			return "network: reserved port collision " + p.Label + "=" + itoa(p.Value)
		}
	}
	if len(a.dynamic) > 0 {
		low, high := dynamicRange(row.Node)
		if row.Ports.Free(low, high, low) < 0 {
			return "network: dynamic port selection failed"
		}
	}
	return ""
}

func dynamicRange(n *api.Node) (low, high int) {
	low, high = dynamicMin, dynamicMax
	if r := n.NodeResources; r != nil && r.MinDynamicPort > 0 {
		low = r.MinDynamicPort
	}
	if r := n.NodeResources; r != nil && r.MaxDynamicPort > 0 {
		high = r.MaxDynamicPort
	}
	return low, high
}

// assign gives ports on the node; without a network the group's resources are shared as they are.
func (a *portsAsk) assign(row *fleet.Row, base *api.AllocatedResources, seed uint64) (*api.AllocatedResources, bool) {
	if a.network == nil {
		return base, true
	}
	given := *a.network
	given.ReservedPorts, given.DynamicPorts = nil, nil
	given.IP, given.Device = addressOf(row.Node, "")
	res := &api.AllocatedResources{Tasks: base.Tasks, Shared: base.Shared}
	taken := row.Ports
	for _, p := range a.static {
		given.ReservedPorts = append(given.ReservedPorts, p)
		res.Shared.Ports = append(res.Shared.Ports, mapping(row.Node, p))
		taken = taken.With(p.Value)
	}
	low, high := dynamicRange(row.Node)
	start := low + int(uint64(tie(seed, row.Count()))%uint64(max(high-low, 1)))
	for _, p := range a.dynamic {
		if p.Value = taken.Free(low, high, start); p.Value < 0 {
			return nil, false
		}
		if p.To == -1 {
			p.To = p.Value
		}
		given.DynamicPorts = append(given.DynamicPorts, p)
		res.Shared.Ports = append(res.Shared.Ports, mapping(row.Node, p))
		taken = taken.With(p.Value)
	}
	res.Shared.Networks = []*api.NetworkResource{&given}
	return res, true
}

func mapping(n *api.Node, p api.Port) api.PortMapping {
	ip, _ := addressOf(n, p.HostNetwork)
	return api.PortMapping{Label: p.Label, Value: p.Value, To: p.To, HostIP: ip}
}

// addressOf is the address and device of the node's host network; "" is the default one.
func addressOf(n *api.Node, network string) (ip, device string) {
	if h := n.HostNetworks[network]; network != "" && h != nil {
		addr, _, _ := strings.Cut(h.CIDR, "/")
		return addr, h.Interface
	}
	if n.NodeResources != nil {
		for _, net := range n.NodeResources.Networks {
			if net.IP != "" {
				return net.IP, net.Device
			}
		}
	}
	host, _, _ := strings.Cut(n.HTTPAddr, ":")
	return host, ""
}
