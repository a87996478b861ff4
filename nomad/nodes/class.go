package nodes

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// computedClass is a hash over what job constraints, drivers, devices and networks can see of a node
// and what nodes can have in common: names that begin with "unique." are left out.
func computedClass(n *api.Node) string {
	h := fnv.New64a()
	text(h, "datacenter", n.Datacenter, "class", n.NodeClass, "pool", n.NodePool)
	pairs(h, "attr", n.Attributes)
	pairs(h, "meta", n.Meta)
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		d := n.Drivers[name]
		text(h, "driver", name, strconv.FormatBool(d != nil && d.Detected), strconv.FormatBool(d != nil && d.Healthy))
	}
	for _, name := range slices.Sorted(maps.Keys(n.HostNetworks)) {
		text(h, "network", name)
	}
	if n.NodeResources != nil {
		for _, d := range n.NodeResources.Devices {
			text(h, "device", d.Vendor, d.Type, d.Name)
		}
	}
	return "v1:" + strconv.FormatUint(h.Sum64(), 10)
}

func pairs(w io.Writer, label string, m map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !strings.HasPrefix(k, "unique.") {
			text(w, label, k, m[k])
		}
	}
}

func text(w io.Writer, parts ...string) {
	for _, p := range parts {
		_, _ = w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		_, _ = io.WriteString(w, p)
	}
}

// differs reports whether what the scheduler can see of a node changed.
func differs(a, b *api.Node) bool {
	return a.ComputedClass != b.ComputedClass || a.SchedulingEligibility != b.SchedulingEligibility ||
		!reflect.DeepEqual(a.NodeResources, b.NodeResources) || !reflect.DeepEqual(a.ReservedResources, b.ReservedResources) ||
		!reflect.DeepEqual(a.HostVolumes, b.HostVolumes) || !reflect.DeepEqual(pluginHealth(a), pluginHealth(b))
}

// pluginHealth is the part of the CSI plugins that placement looks at.
func pluginHealth(n *api.Node) map[string]bool {
	m := map[string]bool{}
	for id, p := range n.CSINodePlugins {
		m["node/"+id] = p != nil && p.Healthy
	}
	for id, p := range n.CSIControllerPlugins {
		m["controller/"+id] = p != nil && p.Healthy
	}
	return m
}
