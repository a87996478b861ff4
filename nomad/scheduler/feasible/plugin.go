package feasible

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// AcceptsGroup reports whether the node accepts new allocations of the group. A closed node accepts only CSI plugins that
// its volumes need.
func AcceptsGroup(view VolumeView, n *api.Node, j *api.Job, g *api.TaskGroup) bool {
	return Available(n) || AcceptsPlugin(view, n, j, g)
}

// AcceptsPlugin reports whether the closed node needs the CSI plugin of the group, because its volumes could not be
// detached without it.
func AcceptsPlugin(view VolumeView, n *api.Node, j *api.Job, g *api.TaskGroup) bool {
	if j == nil || j.Type != api.JobTypeSystem && j.Type != api.JobTypeService || Available(n) {
		return false
	}
	return NeedsPlugin(view, n, g)
}

// NeedsPlugin reports whether the node is ready and its volumes need the CSI plugin of the group.
func NeedsPlugin(view VolumeView, n *api.Node, g *api.TaskGroup) bool {
	return n.Status == api.NodeStatusReady && HasPluginVolumes(view, n, g)
}

// HasPluginVolumes reports whether volumes of a CSI plugin that the group runs are, or may be, mounted on the node or
// attached to it. The group may be nil.
func HasPluginVolumes(view VolumeView, n *api.Node, g *api.TaskGroup) bool {
	return slices.ContainsFunc(nodePlugins(g), func(id string) bool { return hasVolumesOf(view, n, id) })
}

// RunsPlugin reports whether the group runs CSI plugins for the volumes of its node.
func RunsPlugin(g *api.TaskGroup) bool { return len(nodePlugins(g)) > 0 }

// nodePlugins are the CSI plugins that the group runs for the volumes of its node.
func nodePlugins(g *api.TaskGroup) (ids []string) {
	if g == nil {
		return nil
	}
	for _, t := range g.Tasks {
		if t.CSIPluginConfig != nil && t.CSIPluginConfig.Type != api.CSIPluginTypeController {
			ids = append(ids, t.CSIPluginConfig.ID)
		}
	}
	return ids
}

// SharesPlugin reports whether two groups run one CSI plugin for the volumes of their nodes. Each may be nil.
func SharesPlugin(a, b *api.TaskGroup) bool {
	ids := nodePlugins(b)
	return slices.ContainsFunc(nodePlugins(a), func(id string) bool { return slices.Contains(ids, id) })
}

// MissesPlugin reports whether a node that is none of the job's by what it is, its datacenter, its pool or its properties, or on
// which a service has nothing, is to have the CSI plugin that the group runs all the same, as it needs it. That is for no
// job to do where another one may run the plugin there; of several that may not, it is for one that had it there, and for
// the first by its name when that is not known any more.
func MissesPlugin(view VolumeView, n *api.Node, j *api.Job, g *api.TaskGroup, had bool) bool {
	if !NeedsPlugin(view, n, g) {
		return false
	}
	for _, id := range nodePlugins(g) {
		for other := range view.JobsByPlugin(id) {
			if other.Stop || other.ID == j.ID && other.Namespace == j.Namespace || !slices.ContainsFunc(other.TaskGroups, func(g *api.TaskGroup) bool { return provides(g, id) }) {
				continue
			}
			if first := cmp.Or(cmp.Compare(j.Namespace, other.Namespace), cmp.Compare(j.ID, other.ID)) < 0; !had && !first || mayRun(other, id, n) {
				return false
			}
		}
	}
	return true
}

// provides reports whether the group runs the plugin for the volumes of its nodes.
func provides(g *api.TaskGroup, plugin string) bool {
	return g.Count > 0 && slices.Contains(nodePlugins(g), plugin)
}

// mayRun reports whether the system job may run the node's part of the plugin on the node by what that is.
func mayRun(j *api.Job, plugin string, n *api.Node) bool {
	return j.Type == api.JobTypeSystem && slices.ContainsFunc(j.TaskGroups, func(g *api.TaskGroup) bool {
		if !provides(g, plugin) {
			return false
		}
		s := NewStatic(j, g)
		reason, _ := s.Refusal(n)
		return reason == "" && s.InPool(n) && s.InDatacenter(n)
	})
}

// hasVolumesOf reports whether volumes of the plugin are on the node or are to be mounted there: a waiting claim is granted
// without another evaluation of the plugin's job.
func hasVolumesOf(view VolumeView, n *api.Node, plugin string) bool {
	if slices.ContainsFunc(n.StaleMounts, func(m *api.StaleMount) bool { return m.PluginID == plugin }) {
		return true
	}
	for c := range view.ClaimsByNode(n.ID) {
		if c.PluginID == plugin && c.State != api.ClaimUnmounted {
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
