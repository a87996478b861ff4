package nodes

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
)

// Bounds of what a node reports of itself. It is a row on every server, a part of every list of nodes, and added up.
const (
	nameMax = 256
	poolMax = 128
	// nodeMax bounds a node in bytes, shownMax the part that lists show.
	nodeMax  = 4 << 20
	shownMax = 128 << 10
	// networksMax bounds networks and addresses, reservedMax their reserved ports in characters.
	networksMax = 1000
	reservedMax = 16 << 10
	// quantityMax bounds MHz, MB and Mbit/s.
	quantityMax = 1 << 40
	// mountsMax bounds the mounts that a node reports, and those recorded earlier; mountMax is one in bytes.
	mountsMax = 10_000
	mountMax  = 4 << 10
	// drainMetaMax bounds the keys and values in the metadata of a drain, in bytes.
	drainMetaMax = 16 << 10
	// textMax is how much of a text is kept, detailsMax how many details of an event.
	textMax    = 1 << 10
	detailsMax = 32
)

// drainBounds refuses a drain with too much metadata: lists of nodes show it.
func drainBounds(meta map[string]string) error {
	n := 0
	for k, v := range meta {
		n += len(k) + len(v)
	}
	if n > drainMetaMax {
		return fault.New(fault.Invalid, "meta of the drain has %d bytes, at most %d are possible", n, drainMetaMax)
	}
	return nil
}

// bounds refuses a node record that is too large.
func bounds(n *api.Node, noted int) error {
	for what, name := range map[string]string{"ID": n.ID, "name": n.Name, "datacenter": n.Datacenter, "class": n.NodeClass, "secret ID": n.SecretID} {
		if len(name) > nameMax {
			return fault.New(fault.Invalid, "node %s %q is longer than %d characters", what, cut(name, 64), nameMax)
		}
		if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return fault.New(fault.Invalid, "node %s %q contains characters that cannot be printed", what, name)
		}
	}
	if !poolNamed(n.NodePool) {
		return fault.New(fault.Invalid, "node pool %q: at most %d letters, digits, dashes and underscores are possible", cut(n.NodePool, 64), poolMax)
	}
	networks, reserved := len(n.HostNetworks), 0
	for _, h := range n.HostNetworks {
		if h != nil {
			reserved += len(h.ReservedPorts)
		}
	}
	if r := n.NodeResources; r != nil {
		networks += len(r.Networks)
		for _, net := range r.NodeNetworks {
			if networks++; net == nil {
				continue
			}
			networks += len(net.Addresses)
			for _, a := range net.Addresses {
				if a != nil {
					reserved += len(a.ReservedPorts)
				}
			}
		}
		for what, v := range map[string]int64{"cpu": r.Cpu.CpuShares, "memory": r.Memory.MemoryMB, "disk": r.Disk.DiskMB} {
			if v < 0 || v > quantityMax {
				return fault.New(fault.Invalid, "node %s: %d is not between 0 and %d", what, v, int64(quantityMax))
			}
		}
	}
	shown := &api.Node{Drivers: n.Drivers, HostVolumes: n.HostVolumes}
	for _, m := range n.StaleMounts {
		if size := m.Msgsize(); size > mountMax {
			return fault.New(fault.Invalid, "a mount of node %q has %d bytes, at most %d are possible", n.ID, size, mountMax)
		}
	}
	for _, v := range []struct {
		what      string
		has, most int
	}{
		{"networks", networks, networksMax},
		{"characters of reserved ports", reserved, reservedMax},
		{"mounts", len(n.StaleMounts), mountsMax},
		{"mounts, including earlier ones", len(n.StaleMounts) + noted, 2 * mountsMax},
		{"bytes of drivers and host volumes", shown.Msgsize() - (&api.Node{}).Msgsize(), shownMax},
		{"bytes", n.Msgsize(), nodeMax + mountsMax*mountMax},
		{"bytes without its mounts", sizeWithoutMounts(n), nodeMax},
	} {
		if v.has > v.most {
			return fault.New(fault.Invalid, "node %q has %d %s, at most %d are possible", n.ID, v.has, v.what, v.most)
		}
	}
	return nil
}

func sizeWithoutMounts(n *api.Node) int {
	bare := *n
	bare.StaleMounts = nil
	return bare.Msgsize()
}

func poolNamed(name string) bool {
	return len(name) <= poolMax && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// cut keeps the beginning of a text, in whole characters.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// briefDrivers shortens the health descriptions of drivers: they are for people, and no reason to refuse a node.
func briefDrivers(all map[string]*api.DriverInfo) map[string]*api.DriverInfo {
	if all == nil {
		return nil
	}
	out := make(map[string]*api.DriverInfo, len(all))
	for name, d := range all {
		if d != nil && len(d.HealthDescription) > textMax {
			short := *d
			short.HealthDescription = cut(d.HealthDescription, textMax)
			d = &short
		}
		out[name] = d
	}
	return out
}

// namedPlugins marks plugins as unhealthy whose driver reports a name or node id that cannot be stored and shown:
// that is no reason to refuse a node. A driver may report its id of the node later.
func namedPlugins(all map[string]*api.CSIInfo) map[string]*api.CSIInfo {
	if all == nil {
		return nil
	}
	out := make(map[string]*api.CSIInfo, len(all))
	for id, p := range all {
		if p == nil || ids.Wrong(id) != "" || len(id) > nameMax {
			continue
		}
		why := ""
		named := *p
		if p.Provider != "" {
			if wrong := wrongID(p.Provider, nameMax); wrong != "" {
				why, named.Provider = fmt.Sprintf("the driver's name is %.64q: %s", p.Provider, wrong), ""
			}
		}
		if p.NodeInfo != nil {
			wrong := ""
			if id := p.NodeInfo.ID; id != "" {
				if wrong = wrongID(id, nameMax); wrong != "" {
					wrong = fmt.Sprintf("the driver's id of the node is %.64q: %s", id, wrong)
				}
			}
			if wrong = cmp.Or(wrong, ids.WrongTopology(p.NodeInfo.AccessibleTopology)); wrong != "" {
				why, named.NodeInfo = wrong, nil
			}
		}
		if why != "" {
			named.Healthy, named.HealthDescription = false, "the driver's reply cannot be used: "+why
			p = &named
		}
		out[id] = p
	}
	return out
}

func wrongID(id string, most int) string {
	if len(id) > most {
		return fmt.Sprintf("it has %d bytes, of at most %d", len(id), most)
	}
	return ids.Wrong(id)
}

// briefEvents shortens the events of a node to the kept size: a heartbeat is not refused for its events.
func briefEvents(all []*api.NodeEvent) []*api.NodeEvent {
	all = all[max(0, len(all)-eventsKept):]
	out := make([]*api.NodeEvent, 0, len(all))
	for _, e := range all {
		if e == nil {
			continue
		}
		short := *e
		short.Message, short.Subsystem = cut(e.Message, textMax), cut(e.Subsystem, textMax)
		short.Details = nil
		for k, v := range e.Details {
			if len(short.Details) == detailsMax {
				break
			}
			if short.Details == nil {
				short.Details = map[string]string{}
			}
			short.Details[cut(k, nameMax)] = cut(v, textMax)
		}
		out = append(out, &short)
	}
	return out
}
