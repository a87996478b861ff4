package feasible

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Static is what a group asks of a node whatever else runs there.
type Static struct {
	pool string
	// datacenters are patterns; none match all.
	datacenters []string
	rules       []*Rule
	drivers     []string
	// hostVolumes are those that all allocations of the group use.
	hostVolumes []*api.VolumeRequest
	namespace   string
	devices     []*Device
	// networks are the host networks that ports name, some of them by a property of the node.
	// ports are the first that name each.
	networks []Target
	ports    []string
	bridge   string
	// Escaped reports that nodes of one class may answer differently.
	Escaped bool
}

// NewStatic gathers what the group of the job asks.
func NewStatic(j *api.Job, g *api.TaskGroup) *Static {
	s := &Static{pool: j.NodePool, namespace: j.Namespace, datacenters: j.Datacenters, rules: slices.Concat(rules(j.Constraints), rules(g.Constraints))}
	if slices.Contains(s.datacenters, "*") {
		s.datacenters = nil
	}
	for _, t := range g.Tasks {
		s.rules = append(s.rules, rules(t.Constraints)...)
		if t.Driver != "" && !slices.Contains(s.drivers, t.Driver) {
			s.drivers = append(s.drivers, t.Driver)
		}
		s.devices = append(s.devices, Devices(t)...)
	}
	s.addVolumes(g)
	s.addNetwork(g)
	for _, target := range s.networks {
		s.Escaped = s.Escaped || target.Unique()
	}
	for _, r := range s.rules {
		s.Escaped = s.Escaped || r.Unique()
	}
	return s
}

func (s *Static) addVolumes(g *api.TaskGroup) {
	for _, v := range g.Volumes {
		switch v.Type {
		case api.VolumeTypeHost:
			if !v.PerAlloc {
				s.hostVolumes = append(s.hostVolumes, v)
			}
			s.Escaped = s.Escaped || v.PerAlloc || v.Sticky
		case api.VolumeTypeCSI:
			s.Escaped = true
		}
	}
}

func (s *Static) addNetwork(g *api.TaskGroup) {
	if len(g.Networks) == 0 {
		return
	}
	n := g.Networks[0]
	if n.Mode == "bridge" || strings.HasPrefix(n.Mode, "cni/") {
		s.bridge = n.Mode
	}
	for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
		target := ParseTarget(p.HostNetwork)
		if p.HostNetwork != "" && p.HostNetwork != "default" && !slices.Contains(s.networks, target) {
			s.networks, s.ports = append(s.networks, target), append(s.ports, p.Label)
		}
	}
}

func rules(constraints []*api.Constraint) []*Rule {
	var all []*Rule
	for _, c := range constraints {
		if c.Operand != api.ConstraintDistinctHosts && c.Operand != api.ConstraintDistinctProperty {
			all = append(all, NewRule(c.LTarget, c.Operand, c.RTarget))
		}
	}
	return all
}

// Available reports whether the node takes part in placement at all: ready, eligible, not draining.
func Available(n *api.Node) bool {
	return n.Status == api.NodeStatusReady && n.SchedulingEligibility != api.NodeSchedulingIneligible &&
		n.DrainStrategy == nil && !n.Drain
}

// InPool reports whether the node is in the job's pool.
func (s *Static) InPool(n *api.Node) bool {
	return s.pool == api.NodePoolAll || poolName(s.pool) == poolName(n.NodePool)
}

func poolName(p string) string {
	if p == "" {
		return api.NodePoolDefault
	}
	return p
}

// InDatacenter reports whether one of the job's patterns matches the node's datacenter.
func (s *Static) InDatacenter(n *api.Node) bool {
	return len(s.datacenters) == 0 || slices.ContainsFunc(s.datacenters, func(pattern string) bool {
		return Glob(pattern, n.Datacenter)
	})
}

// Refusal is the first reason why the node cannot run the group, or "". Classed reports that all nodes
// of the class are refused for it.
func (s *Static) Refusal(n *api.Node) (reason string, classed bool) {
	for _, r := range s.rules {
		if !r.Holds(n) {
			return r.String(), !r.Unique()
		}
	}
	for _, d := range s.drivers {
		if !runs(n, d) {
			return missingDriver(n, d), false
		}
	}
	if slices.ContainsFunc(s.devices, func(d *Device) bool { return !d.offers(n) }) {
		return "missing devices", false
	}
	if reason := s.missingNetwork(n); reason != "" {
		return reason, false
	}
	if !s.hasHostVolumes(n) {
		return missingHostVolumes, false
	}
	return "", false
}

// descriptionMax bounds, in bytes, what is shown of why a driver is unhealthy.
const descriptionMax = 200

// missingDriver says that the node cannot run the driver, and why when it has it.
func missingDriver(n *api.Node, driver string) string {
	d := n.Drivers[driver]
	if d == nil || !d.Detected || d.HealthDescription == "" {
		return "missing drivers"
	}
	why, _, _ := strings.Cut(d.HealthDescription, "\n")
	return fmt.Sprintf("missing drivers: %s is unhealthy: %s", driver, why[:min(len(why), descriptionMax)])
}

func runs(n *api.Node, driver string) bool {
	if d, ok := n.Drivers[driver]; ok && d != nil {
		return d.Detected && d.Healthy
	}
	switch n.Attributes["driver."+driver] {
	case "1", "true":
		return true
	}
	return false
}

// missingNetwork says which network of the group the node does not have, or nothing.
func (s *Static) missingNetwork(n *api.Node) string {
	for i, target := range s.networks {
		name, ok := target.Value(n)
		if !ok || !hasNetwork(n, name) {
			return fmt.Sprintf("missing host network %q for port %q", name, s.ports[i])
		}
	}
	if !s.hasMode(n) {
		return "missing network"
	}
	return ""
}

func (s *Static) hasMode(n *api.Node) bool {
	if name, isCNI := strings.CutPrefix(s.bridge, "cni/"); isCNI {
		_, ok := n.Attributes["plugins.cni.config."+name]
		return ok
	}
	return s.bridge == "" || hasBridge(n)
}

// hasNetwork reports whether the node has the host network: it is configured, or an address belongs to it.
func hasNetwork(n *api.Node, name string) bool {
	if name == "default" || n.HostNetworks[name] != nil {
		return true
	}
	return n.NodeResources != nil && slices.ContainsFunc(n.NodeResources.NodeNetworks, func(net *api.NodeNetwork) bool {
		return net != nil && slices.ContainsFunc(net.Addresses, func(a *api.NodeNetworkAddress) bool { return a != nil && a.Alias == name })
	})
}

func hasBridge(n *api.Node) bool {
	if n.NodeResources == nil {
		return false
	}
	return slices.ContainsFunc(n.NodeResources.Networks, func(net *api.NetworkResource) bool { return net.Mode == "bridge" }) ||
		n.Attributes["nomad.bridge.hairpin_mode"] != "" || n.Attributes["plugins.cni.version.bridge"] != ""
}

func (s *Static) hasHostVolumes(n *api.Node) bool {
	for _, v := range s.hostVolumes {
		if !n.HostVolumes[v.Source].Offers(s.namespace, v) {
			return false
		}
	}
	return true
}

// Glob reports whether the pattern, in which * stands for any text, matches the whole of s.
func Glob(pattern, s string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, head)
	if !ok {
		return false
	}
	for {
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(s, part)
		}
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s, rest = s[i+len(part):], more
	}
}
