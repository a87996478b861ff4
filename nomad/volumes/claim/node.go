package claim

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Unserved returns why a node's plugin cannot serve volumes now; "" when it can.
func Unserved(n *api.Node, plugin string) string {
	switch info := n.CSINodePlugins[plugin]; {
	case info == nil:
		return fmt.Sprintf("CSI plugin %s is missing from client %s", plugin, n.ID)
	case !info.Healthy:
		return fmt.Sprintf("CSI plugin %s is unhealthy on client %s", plugin, n.ID)
	}
	return ""
}

// ProviderNode is the provider's name of the node, or "" while the plugin has not reported it. The name that a driver
// reports to which the plugin id does not belong is not used.
func ProviderNode(n *api.Node, plugin string) string {
	if i := n.CSINodePlugins[plugin]; i != nil && i.NodeInfo != nil && i.OwnedBy == "" {
		return i.NodeInfo.ID
	}
	return ""
}

// Full returns why a node that has count distinct volumes of the plugin, attached, claimed or planned, takes no other;
// "" when it does. Its driver has reported a limit, or has shown one by refusing a volume.
func Full(n *api.Node, plugin string, count int64) string {
	if l := n.CSILimits[plugin]; l != nil && count >= l.Volumes {
		return fmt.Sprintf("CSI plugin %s has refused more than %d volumes on client %s", plugin, l.Volumes, n.ID)
	}
	i := n.CSINodePlugins[plugin]
	if i != nil && i.NodeInfo != nil && i.NodeInfo.MaxVolumes > 0 && count >= i.NodeInfo.MaxVolumes {
		return fmt.Sprintf("CSI plugin %s has the maximum number of volumes on client %s", plugin, n.ID)
	}
	return ""
}

// Reaches reports whether a node with these segments can use a volume: they contain all segments of at least one of the
// volume's topologies. A volume without topologies can be used everywhere.
func Reaches(node *api.Topology, volume []*api.Topology) bool {
	wanted := 0
	for _, t := range volume {
		if t == nil || len(t.Segments) == 0 {
			continue
		}
		wanted++
		if node != nil && contains(node.Segments, t.Segments) {
			return true
		}
	}
	return wanted == 0
}

// contains compares keys without regard to case.
func contains(have, want map[string]string) bool {
	for k, v := range want {
		got, ok := have[k]
		for other, value := range have {
			if !ok && strings.EqualFold(other, k) {
				got, ok = value, true
			}
		}
		if !ok || got != v {
			return false
		}
	}
	return true
}
