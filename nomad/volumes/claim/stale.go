package claim

import (
	"fmt"
	"iter"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
)

// Stale returns a mount of the external volume that the node may still have of an evicted claim; nil when there is
// none.
func Stale(n *api.Node, plugin, external string) *api.StaleMount {
	i := slices.IndexFunc(n.StaleMounts, func(m *api.StaleMount) bool { return m.PluginID == plugin && m.ExternalID == external })
	if i < 0 {
		return nil
	}
	return n.StaleMounts[i]
}

// Twin returns another node that is, or was, the machine of n by the driver's id, and a mount of the external volume
// that it may still have of an evicted claim; nil when there is none. stale lists the nodes with such mounts. Mounts
// of another boot no longer exist.
func Twin(n *api.Node, plugin, external string, stale iter.Seq[*api.Node]) (*api.Node, *api.StaleMount) {
	machine := ProviderNode(n, plugin)
	if machine == "" {
		return nil, nil
	}
	for o := range stale {
		if o.ID == n.ID || Rebooted(o, n) {
			continue
		}
		for _, m := range o.StaleMounts {
			if m.PluginID == plugin && m.ExternalID == external && (m.ProviderNodeID == machine || ProviderNode(o, plugin) == machine) {
				return o, m
			}
		}
	}
	return nil, nil
}

// Rebooted reports whether two nodes, if they are one machine, have reported two boots of it.
func Rebooted(n, o *api.Node) bool {
	return n.BootID != "" && o.BootID != "" && n.BootID != o.BootID
}

// NotYetTwin returns why the volume cannot be attached to a node because of what [Twin] found.
func NotYetTwin(namespace, volume, node, plugin string, twin *api.Node, m *api.StaleMount) string {
	return fmt.Sprintf("node %s is the machine that node %s was, by what CSI plugin %q calls it, and %s",
		node, twin.ID, plugin, NotYet(namespace, volume, twin.ID, m))
}

// NotYet returns why the volume cannot be used on a node with a stale mount, and what happens next. The command uses
// the caller's name of the volume: the one that the mount was made for may have been removed.
func NotYet(namespace, volume, node string, m *api.StaleMount) string {
	user := "allocation " + m.AllocID
	if m.Namespace != namespace {
		user = "an allocation of another namespace" // see [Holder]
	}
	s := fmt.Sprintf("volume %q may still be mounted on node %s for %s, whose claim was released: it can be used there when the node has unmounted it (`%s` asserts that)",
		volume, node, user, commandtext.DetachByForce(namespace, volume, node))
	if m.LastError != "" {
		s += ", which failed: " + m.LastError
	}
	return s
}
