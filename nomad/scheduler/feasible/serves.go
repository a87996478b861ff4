package feasible

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// Keyring is the version of the log of that name, see package fsm, which is no lower layer.
const Keyring uint64 = 3

// Takes reports whether an allocation of the group may be placed on the node as far as that takes part in placement. One
// that takes nothing new gets the CSI plugins that it needs to give its volumes back: they come as system jobs.
func Takes(view VolumeView, n *api.Node, j *api.Job, g *api.TaskGroup) bool {
	return Available(n) || Serves(view, n, j, g)
}

// Serves reports whether the node takes nothing new and yet needs the group, which runs a CSI plugin, for volumes that are,
// or may be, mounted on it or attached to it: without the plugin they would stay there for ever.
func Serves(view VolumeView, n *api.Node, j *api.Job, g *api.TaskGroup) bool {
	if j == nil || g == nil || j.Type != api.JobTypeSystem || n.Status != api.NodeStatusReady || Available(n) || view.AgreedVersion() < Keyring {
		return false
	}
	return Holds(view, n, g)
}

// Holds reports whether the group runs a CSI plugin of the node's, and volumes of it are, or may be, mounted on the node or
// attached to it. The group may be nil.
func Holds(view VolumeView, n *api.Node, g *api.TaskGroup) bool {
	return g != nil && slices.ContainsFunc(g.Tasks, func(t *api.Task) bool {
		return t.CSIPluginConfig != nil && t.CSIPluginConfig.Type != api.CSIPluginTypeController && needs(view, n, t.CSIPluginConfig.ID)
	})
}

func needs(view VolumeView, n *api.Node, plugin string) bool {
	if slices.ContainsFunc(n.StaleMounts, func(m *api.StaleMount) bool { return m.PluginID == plugin }) {
		return true
	}
	for c := range view.ClaimsByNode(n.ID) {
		if c.PluginID == plugin && c.State != api.ClaimWaiting && c.State != api.ClaimUnmounted {
			return true
		}
	}
	for a := range view.AttachmentsByNode(n.ID) {
		if a.PluginID == plugin {
			return true
		}
	}
	return false
}
