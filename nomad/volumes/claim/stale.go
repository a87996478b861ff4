package claim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/remedy"
)

// Stale is a mount of the external volume that the node may still have of a claim that was given up; nil when
// there is none.
func Stale(n *api.Node, plugin, external string) *api.StaleMount {
	i := slices.IndexFunc(n.StaleMounts, func(m *api.StaleMount) bool { return m.PluginID == plugin && m.ExternalID == external })
	if i < 0 {
		return nil
	}
	return n.StaleMounts[i]
}

// NotYet says why the volume cannot be used on a node with a stale mount, and what happens next.
func NotYet(volume, node string, m *api.StaleMount) string {
	s := fmt.Sprintf("volume %q may still be mounted on node %s for allocation %s, whose claim was given up: it can be used there when the node has unmounted it (`%s` asserts that)",
		volume, node, m.AllocID, remedy.DetachByForce(m.Namespace, cmp.Or(m.VolumeID, volume), node))
	if m.LastError != "" {
		s += ", which failed: " + m.LastError
	}
	return s
}
