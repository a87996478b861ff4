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
	"time"

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
func differs(a, b *api.Node) bool { return !reflect.DeepEqual(seen(a), seen(b)) }

// seen is a node without what no scheduler looks at.
func seen(n *api.Node) api.Node {
	s := *n
	keep(&s, &api.Node{})
	s.CreateIndex, s.ModifyIndex = 0, 0
	s.HTTPAddr, s.RPCAddr, s.TLSEnabled, s.SecretID = "", "", false, ""
	s.IdentitySigningKeyID = ""
	s.CgroupParent, s.GCVolumesOnNodeGC, s.BootID, s.Silence, s.StaleMounts = "", false, "", 0, nil
	s.Process, s.Number, s.Former = "", 0, nil
	s.Drivers = nil // the class has which of them work
	s.CSIControllerPlugins, s.CSINodePlugins = unworded(n.CSIControllerPlugins), unworded(n.CSINodePlugins)
	return s
}

// unworded returns plugins without their health descriptions.
func unworded(plugins map[string]*api.CSIInfo) map[string]*api.CSIInfo {
	m := make(map[string]*api.CSIInfo, len(plugins))
	for id, p := range plugins {
		if p != nil {
			i := *p
			i.HealthDescription, i.UpdateTime = "", time.Time{}
			m[id] = &i
		}
	}
	return m
}
