package fleet

import (
	"iter"
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// Row is one node: what it has for tasks and what of that is used. Rows are read-only.
type Row struct {
	Node *api.Node
	// Total is what tasks may use: the node's resources less what is reserved for the host.
	Total Amount
	Used  Amount

	site *site
	*taken
	loads  loadSet
	shares []Share
}

// taken is what exclusive loads have. Rows share it; it is never changed.
type taken struct {
	// ports are the host's and those given to allocations, per address.
	ports []Ports
	// doubled are ports of loads that another load, or the host, had before.
	doubled []HostPort
	cores   Bits
	devices []Bits
	writes  []Write
}

func newRow(n *api.Node) *Row {
	r := &Row{Node: n, site: newSite(n)}
	if n.NodeResources != nil {
		r.Total = Amount{n.NodeResources.Cpu.CpuShares, n.NodeResources.Memory.MemoryMB, n.NodeResources.Disk.DiskMB}
	}
	if res := n.ReservedResources; res != nil {
		cpu := max(int64(res.Cpu.CpuShares), r.MHz(res.Cpu.ReservedCpuCores))
		r.Total = r.Total.Sub(Amount{cpu, int64(res.Memory.MemoryMB), int64(res.Disk.DiskMB)})
	}
	r.taken = &taken{ports: r.site.host}
	return r
}

// Count is how many allocations count.
func (r *Row) Count() int { return r.loads.len() }

// Loads are the allocations that count, by id.
func (r *Row) Loads() iter.Seq2[string, Load] { return r.loads.all() }

// Network is the addresses of a host network, by position; none when the node does not have it.
func (r *Row) Network(name string) []int {
	if name == "" {
		name = DefaultNetwork
	}
	return r.site.networks[name]
}

// Address is the address at the position.
func (r *Row) Address(i int) Address { return r.site.addresses[i] }

// Ports are those reserved for the host and those given to allocations on the address at the position.
// They are not to be changed.
func (r *Row) Ports(i int) *Ports { return &r.ports[i] }

// FreeCores are the cores that may be reserved and are not.
func (r *Row) FreeCores() Bits { return r.site.cores.reservable.Minus(r.cores) }

// NUMA are the cores that may be reserved, per NUMA node.
func (r *Row) NUMA() []Bits { return r.site.cores.numa }

// MHz is the speed of the cores together.
func (r *Row) MHz(ids []uint16) int64 {
	sum := int64(0)
	for _, id := range ids {
		sum += r.site.cores.speed(int(id))
	}
	return sum
}

// Devices are the node's groups of devices.
func (r *Row) Devices() []*Devices { return r.site.devices }

// FreeDevices are the healthy instances of the group at the position that nobody has.
func (r *Row) FreeDevices(group int) Bits {
	if group >= len(r.devices) {
		return r.site.devices[group].healthy
	}
	return r.site.devices[group].healthy.Minus(r.devices[group])
}

// FreeDevicesNear are those of [Row.FreeDevices] that are at the NUMA node with the position in [Row.NUMA].
func (r *Row) FreeDevicesNear(group, numa int) Bits {
	return r.FreeDevices(group).And(r.site.devices[group].near[numa])
}

// Writable reports whether one more may write to the host volume.
func (r *Row) Writable(w Write) bool {
	return !slices.ContainsFunc(r.writes, func(have Write) bool { return have.Volume == w.Volume && (have.Alone || w.Alone) })
}

// Refuses is why the node cannot take the load, or "". shared tells which of its ports may be taken by
// others already.
func (r *Row) Refuses(l Load, shared func(HostPort) bool) string {
	if limit := r.Node.NodeMaxAllocs; limit > 0 && r.Count() >= limit {
		return "max allocation exceeded"
	}
	if dim := r.Used.Add(l.Amount).Exceeds(r.Total); dim != "" {
		return dim
	}
	x := l.Exclusive
	if x == nil {
		return ""
	}
	for _, p := range x.Ports {
		if r.portTaken(p) && !shared(p) {
			return "network: port collision"
		}
	}
	if len(x.Cores) > 0 {
		free := r.FreeCores()
		for _, id := range x.Cores {
			if !free.Has(int(id)) {
				return "cores"
			}
			free[id/64] &^= 1 << (id % 64)
		}
	}
	if len(x.Devices) > 0 && !r.devicesFree(x.Devices) {
		return "device oversubscribed"
	}
	for _, w := range x.Writes {
		if !r.Writable(w) {
			return "host volume " + w.Volume + " has a single writer already"
		}
	}
	return ""
}

func (r *Row) portTaken(p HostPort) bool {
	for i := range r.positions(p.IP) {
		if r.ports[i].Has(p.Port) {
			return true
		}
	}
	return false
}

// positions are where an address is; one that the node does not have stands for all.
func (r *Row) positions(ip string) iter.Seq[int] {
	return func(yield func(int) bool) {
		if i := r.site.at(ip); i >= 0 {
			yield(i)
			return
		}
		for i := range r.site.addresses {
			if !yield(i) {
				return
			}
		}
	}
}

func (r *Row) devicesFree(devices []*api.AllocatedDeviceResource) bool {
	taken := map[int]Bits{}
	for _, d := range devices {
		group := r.groupOf(d)
		if group < 0 {
			return false
		}
		free, known := taken[group]
		if !known {
			free = slices.Clone(r.FreeDevices(group))
			taken[group] = free
		}
		for _, id := range d.DeviceIDs {
			place, ok := r.site.devices[group].places[id]
			if !ok || !free.Has(place) {
				return false
			}
			free[place/64] &^= 1 << (place % 64)
		}
	}
	return true
}

func (r *Row) groupOf(d *api.AllocatedDeviceResource) int {
	return slices.IndexFunc(r.site.devices, func(g *Devices) bool {
		return g.Vendor == d.Vendor && g.Type == d.Type && g.Name == d.Name
	})
}

// take counts a load; the row must be the caller's own.
func (r *Row) take(l Load) {
	r.Used = r.Used.Add(l.Amount)
	r.account(l, 1)
	if l.Exclusive == nil {
		return
	}
	r.taken = new(*r.taken)
	r.takePorts(l.Exclusive.Ports)
	r.hold(l.Exclusive)
	r.writes = append(slices.Clip(r.writes), l.Exclusive.Writes...)
}

func (r *Row) takePorts(list []HostPort) {
	if len(list) == 0 {
		return
	}
	r.ports = slices.Clone(r.ports)
	var few [4]uint16
	own := append(few[:0], make([]uint16, len(r.ports))...)
	for _, p := range list {
		for i := range r.positions(p.IP) {
			if r.ports[i].Has(p.Port) {
				r.doubled = append(slices.Clip(r.doubled), HostPort{r.site.addresses[i].IP, p.Port})
				continue
			}
			r.ports[i].put(p.Port, &own[i])
		}
	}
}

// hold marks cores and devices as used.
func (r *Row) hold(x *Exclusive) {
	for _, id := range x.Cores {
		r.cores = r.cores.With(int(id))
	}
	for _, d := range x.Devices {
		group := r.groupOf(d)
		if group < 0 {
			continue
		}
		next := make([]Bits, len(r.site.devices))
		copy(next, r.devices)
		for _, id := range d.DeviceIDs {
			if place, ok := r.site.devices[group].places[id]; ok {
				next[group] = next[group].With(place)
			}
		}
		r.devices = next
	}
}

// release no longer counts a load, which is not among the row's loads any more.
func (r *Row) release(l Load) {
	r.Used = r.Used.Sub(l.Amount)
	r.account(l, -1)
	x := l.Exclusive
	if x == nil {
		return
	}
	r.taken = new(*r.taken)
	r.releasePorts(x.Ports)
	for _, w := range x.Writes {
		if i := slices.Index(r.writes, w); i >= 0 {
			r.writes = slices.Delete(slices.Clone(r.writes), i, i+1)
		}
	}
	if len(x.Cores)+len(x.Devices) == 0 {
		return
	}
	r.cores, r.devices = nil, nil
	for _, other := range r.Loads() {
		if other.Exclusive != nil {
			r.hold(other.Exclusive)
		}
	}
}

func (r *Row) releasePorts(list []HostPort) {
	if len(list) == 0 {
		return
	}
	r.ports = slices.Clone(r.ports)
	for _, p := range list {
		for i := range r.positions(p.IP) {
			again := HostPort{r.site.addresses[i].IP, p.Port}
			if at := slices.Index(r.doubled, again); at >= 0 {
				r.doubled = slices.Delete(slices.Clone(r.doubled), at, at+1)
				continue
			}
			r.ports[i] = r.ports[i].Without(p.Port)
		}
	}
}
