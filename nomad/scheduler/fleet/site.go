package fleet

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// DefaultNetwork is the host network of ports that name none.
const DefaultNetwork = "default"

// Address is an address of a node on which ports are given.
type Address struct{ IP, Device string }

// site is what a node has, apart from amounts; rows of the same node share it.
type site struct {
	addresses []Address
	// networks are the addresses of each host network, by position.
	networks map[string][]int
	// host are the ports kept for the host, per address.
	host    []Ports
	cores   cores
	devices []*Devices
}

// cores are the cores that tasks may reserve.
type cores struct {
	reservable Bits
	// numa are the reservable cores per NUMA node.
	numa []Bits
	// ids are the NUMA nodes of numa.
	ids []uint8
	// mhz are the speeds of single cores; those that are not listed have the usual one.
	mhz   map[int]int64
	usual int64
}

func newSite(n *api.Node) *site {
	s := &site{networks: map[string][]int{}}
	s.addNetworks(n)
	if n.ReservedResources != nil {
		for i := range s.host {
			s.host[i] = ParsePorts(s.host[i], n.ReservedResources.Networks.ReservedHostPorts)
		}
	}
	s.cores = coresOf(n)
	if n.NodeResources != nil {
		for _, d := range n.NodeResources.Devices {
			if d != nil {
				s.devices = append(s.devices, newDevices(d, s.cores.ids, n.NodeResources.Processors.Topology))
			}
		}
	}
	return s
}

// addNetworks gathers the addresses: those that the node names per host network, else the plain list,
// else the one of its HTTP server.
func (s *site) addNetworks(n *api.Node) {
	if r := n.NodeResources; r != nil {
		for _, net := range r.NodeNetworks {
			if net == nil {
				continue
			}
			for _, a := range net.Addresses {
				if a != nil {
					s.add(a.Alias, a.Address, net.Device, a.ReservedPorts)
				}
			}
		}
		if len(s.networks[DefaultNetwork]) == 0 {
			for _, net := range r.Networks {
				if net != nil {
					s.add(DefaultNetwork, net.IP, net.Device, "")
				}
			}
		}
	}
	for name, h := range n.HostNetworks {
		if h == nil || len(s.networks[name]) > 0 {
			continue
		}
		if ip, _, _ := strings.Cut(h.CIDR, "/"); isAddress(ip) {
			s.add(name, ip, h.Interface, h.ReservedPorts)
		}
	}
	if len(s.networks[DefaultNetwork]) == 0 {
		host, _, _ := strings.Cut(n.HTTPAddr, ":")
		if at, err := netip.ParseAddrPort(n.HTTPAddr); err == nil {
			host = at.Addr().String()
		}
		s.addKnown(DefaultNetwork, host, "", "")
	}
}

func isAddress(ip string) bool {
	_, err := netip.ParseAddr(ip)
	return err == nil
}

func (s *site) add(network, ip, device, reserved string) {
	if ip != "" {
		s.addKnown(network, ip, device, reserved)
	}
}

func (s *site) addKnown(network, ip, device, reserved string) {
	if network == "" {
		network = DefaultNetwork
	}
	i := slices.IndexFunc(s.addresses, func(a Address) bool { return a.IP == ip })
	if i < 0 {
		i = len(s.addresses)
		s.addresses, s.host = append(s.addresses, Address{ip, device}), append(s.host, Ports{})
	}
	s.host[i] = ParsePorts(s.host[i], reserved)
	if list := s.networks[network]; !slices.Contains(list, i) && s.sameFamily(list, i) {
		s.networks[network] = append(list, i)
	}
}

// sameFamily keeps the addresses of one network to the family of its first: a socket on all IPv6 addresses
// usually takes the IPv4 ones too, so a port of one is not free on the other.
func (s *site) sameFamily(list []int, i int) bool {
	return len(list) == 0 || strings.Contains(s.addresses[list[0]].IP, ":") == strings.Contains(s.addresses[i].IP, ":")
}

// at is the position of an address, or -1.
func (s *site) at(ip string) int {
	return slices.IndexFunc(s.addresses, func(a Address) bool { return a.IP == ip })
}

func coresOf(n *api.Node) cores {
	var c cores
	if n.NodeResources == nil {
		return c
	}
	cpu := n.NodeResources.Cpu
	c.reservable = bitsOf(cpu.ReservableCpuCores)
	if n.ReservedResources != nil {
		c.reservable = c.reservable.Minus(bitsOf(n.ReservedResources.Cpu.ReservedCpuCores))
	}
	if count := int64(max(int(cpu.TotalCpuCores), len(cpu.ReservableCpuCores))); count > 0 {
		c.usual = cpu.CpuShares / count
	}
	t := n.NodeResources.Processors.Topology
	if t == nil || len(t.Cores) == 0 {
		c.numa, c.ids = []Bits{c.reservable}, []uint8{0}
		return c
	}
	nodes := map[uint8][]uint16{}
	for _, core := range t.Cores {
		if core == nil {
			continue
		}
		if mhz := speedOf(core); t.OverrideTotalCompute == 0 && mhz > 0 && mhz != c.usual {
			if c.mhz == nil {
				c.mhz = map[int]int64{}
			}
			c.mhz[int(core.ID)] = mhz
		}
		if c.reservable.Has(int(core.ID)) && !core.Disable {
			nodes[core.NodeID] = append(nodes[core.NodeID], core.ID)
		}
	}
	usable := Bits(nil)
	for id := range 256 {
		if list := nodes[uint8(id)]; len(list) > 0 {
			set := bitsOf(list)
			c.numa, c.ids = append(c.numa, set), append(c.ids, uint8(id))
			usable = usable.or(set)
		}
	}
	c.reservable = usable
	return c
}

func (b Bits) or(other Bits) Bits {
	out := make(Bits, max(len(b), len(other)))
	copy(out, b)
	for i, w := range other {
		out[i] |= w
	}
	return out
}

// speedOf is the speed of a core in MHz; 0 when nothing is known.
func speedOf(c *api.NodeCore) int64 {
	for _, mhz := range []uint64{c.BaseSpeed, c.MaxSpeed, c.GuessSpeed} {
		if mhz > 0 {
			return int64(mhz)
		}
	}
	return 0
}

func (c *cores) speed(id int) int64 {
	if mhz, ok := c.mhz[id]; ok {
		return mhz
	}
	return c.usual
}

// Devices are the equal devices of a node, with the places of their instances.
type Devices struct {
	*api.NodeDeviceResource
	places  map[string]int
	healthy Bits
	// near are the instances at each NUMA node that has cores for tasks.
	near []Bits
}

func newDevices(d *api.NodeDeviceResource, numa []uint8, t *api.NodeTopology) *Devices {
	words := (len(d.Instances) + 63) / 64
	g := &Devices{NodeDeviceResource: d, places: map[string]int{}, healthy: make(Bits, words), near: make([]Bits, len(numa))}
	for i := range g.near {
		g.near[i] = make(Bits, words)
	}
	for i, inst := range d.Instances {
		if inst == nil {
			continue
		}
		g.places[inst.ID] = i
		if inst.Healthy {
			g.healthy.set(i)
		}
		if id, known := numaOf(inst, t); known {
			if at := slices.Index(numa, id); at >= 0 {
				g.near[at].set(i)
			}
		}
	}
	return g
}

// numaOf is the NUMA node of a device; with only one, all devices are at it.
func numaOf(d *api.NodeDevice, t *api.NodeTopology) (uint8, bool) {
	switch {
	case t == nil || len(t.Cores) == 0:
		return 0, true
	case len(t.Nodes) == 1:
		return uint8(t.Nodes[0]), true
	case d.Locality == nil:
		return 0, false
	}
	id, known := t.BusAssociativity[busID(d.Locality.PciBusID)]
	return id, known
}

// busID is a PCI bus id as Linux writes it; some libraries write the domain with eight digits and capital letters.
func busID(id string) string {
	id = strings.ToLower(id)
	if domain, rest, ok := strings.Cut(id, ":"); ok && len(domain) > 4 && strings.Contains(rest, ":") {
		return strings.TrimPrefix(domain, strings.Repeat("0", len(domain)-4)) + ":" + rest
	}
	return id
}
