package scheduler

import (
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
)

// The default range of dynamic ports; the end is exclusive.
const (
	dynamicMin = 20_000
	dynamicMax = 32_000
)

// portsAsk is the requested network of a group: its first one.
type portsAsk struct {
	network *api.NetworkResource
	static  []portAsk
	dynamic []portAsk
}

// portAsk is one requested port and its host network, which may depend on the node.
type portAsk struct {
	api.Port
	on feasible.Target
}

func asksOf(g *api.TaskGroup) portsAsk {
	if len(g.Networks) == 0 {
		return portsAsk{}
	}
	a := portsAsk{network: g.Networks[0]}
	for _, p := range slices.Concat(a.network.ReservedPorts, a.network.DynamicPorts) {
		ask := portAsk{p, feasible.ParseTarget(p.HostNetwork)}
		if p.Value > 0 {
			a.static = append(a.static, ask)
		} else {
			a.dynamic = append(a.dynamic, ask)
		}
	}
	return a
}

// addresses returns the positions of the node's addresses that the port may use.
func (p *portAsk) addresses(row *fleet.Row) []int {
	name, _ := p.on.Value(row.Node)
	return row.Network(name)
}

func (p *portAsk) unreachable(row *fleet.Row) string {
	name, _ := p.on.Value(row.Node)
	if name == "" {
		name = fleet.DefaultNetwork
	}
	return "network: no addresses available for " + name + " network"
}

const noDynamicPort = "network: dynamic port selection failed"

// given are ports that are chosen for an allocation but not taken yet.
type given []takenPort

type takenPort struct{ address, port int }

// refusal returns why the node's ports do not suffice, or "".
func (a *portsAsk) refusal(row *fleet.Row) string {
	for i := range a.static {
		if _, why := a.static[i].fixed(row, nil); why != "" {
			return why
		}
	}
	if len(a.dynamic) == 0 {
		return ""
	}
	low, high := dynamicRange(row.Node)
	for i := range a.dynamic {
		if _, why := a.dynamic[i].free(row, nil, low, high, low); why != "" {
			return why
		}
	}
	return ""
}

// fixed returns the first address on which a static port is free.
func (p *portAsk) fixed(row *fleet.Row, taken given) (takenPort, string) {
	addresses := p.addresses(row)
	if len(addresses) == 0 {
		return takenPort{}, p.unreachable(row)
	}
	for _, at := range addresses {
		t := takenPort{at, p.Value}
		if p.IgnoreCollision || !row.Ports(at).Has(p.Value) && !slices.Contains(taken, t) {
			return t, ""
		}
	}
	return takenPort{}, "network: reserved port collision " + p.Label + "=" + strconv.Itoa(p.Value)
}

// free chooses a dynamic port in [low, high), searching from start and wrapping around.
func (p *portAsk) free(row *fleet.Row, taken given, low, high, start int) (takenPort, string) {
	addresses := p.addresses(row)
	if len(addresses) == 0 {
		return takenPort{}, p.unreachable(row)
	}
	for _, at := range addresses {
		from := start
		for range len(taken) + 1 {
			t := takenPort{at, row.Ports(at).Free(low, high, from)}
			if t.port < 0 {
				break
			}
			if !slices.Contains(taken, t) {
				return t, ""
			}
			if from = t.port + 1; from >= high {
				from = low
			}
		}
	}
	return takenPort{}, noDynamicPort
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

// assign chooses ports on the node. It returns the shared resources with them, or why there are none.
func (a *portsAsk) assign(row *fleet.Row, base api.AllocatedSharedResources, seed uint64) (api.AllocatedSharedResources, string) {
	if a.network == nil {
		return base, ""
	}
	net := *a.network
	net.ReservedPorts, net.DynamicPorts = nil, nil
	home := row.Address(row.Network(fleet.DefaultNetwork)[0])
	net.IP, net.Device = home.IP, home.Device
	taken := make(given, 0, len(a.static)+len(a.dynamic))
	base.Ports = make([]api.PortMapping, 0, cap(taken))
	add := func(p api.Port, t takenPort) api.Port {
		if p.Value = t.port; p.To == -1 {
			p.To = p.Value
		}
		taken = append(taken, t)
		base.Ports = append(base.Ports, api.PortMapping{Label: p.Label, Value: p.Value, To: p.To, HostIP: row.Address(t.address).IP})
		return p
	}
	for i := range a.static {
		t, why := a.static[i].fixed(row, taken)
		if why != "" {
			return base, why
		}
		net.ReservedPorts = append(net.ReservedPorts, add(a.static[i].Port, t))
	}
	low, high := dynamicRange(row.Node)
	start := low + int(uint64(tieBreaker(seed, row.Count()))%uint64(max(high-low, 1)))
	for i := range a.dynamic {
		t, why := a.dynamic[i].free(row, taken, low, high, start)
		if why != "" {
			return base, why
		}
		net.DynamicPorts = append(net.DynamicPorts, add(a.dynamic[i].Port, t))
	}
	base.Networks = []*api.NetworkResource{&net}
	return base, ""
}
