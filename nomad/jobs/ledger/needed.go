package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// usersShown bounds how many users of a plugin an error names.
const usersShown = 10

// Needed refuses to let a job go, or to change it to next, while volumes need a CSI plugin that only this job
// provides: without it they cannot be unmounted or detached. Node and controller plugins count apart: mounts
// need an instance on their node, attachments and operations under way one of a controller. A node plugin
// that changes its type counts as one that goes away: what it mounted, it mounted elsewhere. So does a system job that
// keeps the plugin and leaves the nodes of mounts, by its constraints, datacenters or pool.
func Needed(tx *state.Txn, old, next *api.Job) error {
	if old == nil || old.Stop {
		return nil
	}
	now := offers(next)
	was := offers(old)
	for _, id := range slices.Sorted(maps.Keys(was)) {
		loss := lossOf(tx, old, id, was[id], now[id])
		if next != nil && next.Type == api.JobTypeSystem {
			loss.leaves = leaving(tx, id, old, next)
		}
		users := loss.users(tx)
		if len(users) == 0 {
			continue
		}
		what := fmt.Sprintf("job %q provides the CSI plugin %q, which is in use", old.ID, id)
		switch is := now[id]; {
		case !is.any():
		case !loss.node && !loss.controller:
			what = fmt.Sprintf("job %q takes the CSI plugin %q away from nodes where it is in use", old.ID, id)
		default:
			what = fmt.Sprintf("job %q changes the type of the CSI plugin %q from %s to %s, and it is in use", old.ID, id, was[id], is)
		}
		return fault.New(fault.Conflict, "%s: %s; stop those jobs first, or stop this one with -force", what, strings.Join(users, "; "))
	}
	return nil
}

// offer is what a job provides of one plugin: its types.
type offer []string

func (o offer) any() bool      { return len(o) > 0 }
func (o offer) String() string { return strings.Join(o, " and ") }

func (o offer) controller() bool {
	return slices.ContainsFunc(o, func(t string) bool { return t != api.CSIPluginTypeNode })
}

// nodes are the types that serve mounts.
func (o offer) nodes() offer {
	return slices.DeleteFunc(slices.Clone(o), func(t string) bool { return t == api.CSIPluginTypeController })
}

// offers lists what the job's tasks provide, by plugin; the job may be nil.
func offers(j *api.Job) map[string]offer {
	out := map[string]offer{}
	if j == nil {
		return out
	}
	for _, g := range j.TaskGroups {
		if g.Count == 0 {
			continue
		}
		for id, o := range groupOffers(g) {
			out[id] = slices.Compact(slices.Sorted(slices.Values(append(out[id], o...))))
		}
	}
	return out
}

func groupOffers(g *api.TaskGroup) map[string]offer {
	out := map[string]offer{}
	for _, t := range g.Tasks {
		if c := t.CSIPluginConfig; c != nil {
			out[c.ID] = append(out[c.ID], c.Type)
		}
	}
	return out
}

// loss is what is not provided any more of a plugin.
type loss struct {
	plugin           string
	node, controller bool
	// nodes are those where another job runs the node plugin, and own those where this one runs something.
	nodes, own map[string]bool
	// theirs are the nodes where other system jobs may run the node plugin.
	theirs []func(*api.Node) bool
	// controlled is set when the job keeps its controllers or another job runs one.
	controlled bool
	// leaves reports of a node whether the job's next version keeps the node plugin and cannot run it there any more; nil
	// where it leaves none.
	leaves func(node string) bool
}

// leaving compares where two versions of a job may run the node plugin. A node is looked at once, whatever has volumes there.
func leaving(tx *state.Txn, plugin string, old, next *api.Job) func(node string) bool {
	was, is := places(old, plugin), places(next, plugin)
	known := map[string]bool{}
	return func(node string) bool {
		leaves, seen := known[node]
		if n := tx.Node(node); !seen && n != nil {
			leaves = was(n) && !is(n)
			known[node] = leaves
		}
		return leaves
	}
}

// places reports of a node whether the job may run the node plugin there, as far as what the node is goes.
func places(j *api.Job, plugin string) func(*api.Node) bool {
	var asks []*feasible.Static
	for _, g := range j.TaskGroups {
		if g.Count != 0 && groupOffers(g)[plugin].nodes().any() {
			asks = append(asks, feasible.NewStatic(j, g))
		}
	}
	return func(n *api.Node) bool {
		return slices.ContainsFunc(asks, func(s *feasible.Static) bool {
			reason, _ := s.Refusal(n)
			return reason == "" && s.InPool(n) && s.InDatacenter(n)
		})
	}
}

func lossOf(tx *state.Txn, j *api.Job, plugin string, was, is offer) loss {
	l := loss{plugin: plugin, controller: was.controller() && !is.controller(), nodes: map[string]bool{}, own: map[string]bool{}}
	l.controlled = !l.controller
	l.node = slices.ContainsFunc(was.nodes(), func(t string) bool { return !slices.Contains(is, t) })
	for a := range tx.AllocsByJob(j.Namespace, j.ID) {
		l.own[a.NodeID] = l.own[a.NodeID] || !a.Terminal()
	}
	for other := range tx.JobsByPlugin(plugin) {
		if other.Stop || other.ID == j.ID && other.Namespace == j.Namespace {
			continue
		}
		if other.Type == api.JobTypeSystem {
			l.theirs = append(l.theirs, places(other, plugin))
		}
		for a := range tx.AllocsByJob(other.Namespace, other.ID) {
			o := runs(a, plugin)
			l.controlled = l.controlled || o.controller() && controls(tx, a, plugin)
			l.nodes[a.NodeID] = l.nodes[a.NodeID] || o.nodes().any() && mounts(tx, a, plugin)
		}
	}
	return l
}

// controls reports whether the controller that the allocation runs can be called, as far as its node has reported it,
// unless another instance of the plugin is the active one there.
func controls(tx *state.Txn, a *api.Allocation, plugin string) bool {
	n := tx.Node(a.NodeID)
	if n == nil || n.Status != api.NodeStatusReady {
		return false
	}
	i := n.CSIControllerPlugins[plugin]
	return i == nil || i.AllocID != a.ID || i.Healthy
}

// mounts reports whether the node plugin that the allocation runs works, as far as is known.
func mounts(tx *state.Txn, a *api.Allocation, plugin string) bool {
	n := tx.Node(a.NodeID)
	if n == nil {
		return true
	}
	i := n.CSINodePlugins[plugin]
	return i == nil || i.AllocID != a.ID || i.Healthy || n.Status != api.NodeStatusReady
}

// elsewhere reports whether the mounts on a node are for others to end: another job runs the plugin there, or may, and this
// one has nothing there.
func (l loss) elsewhere(tx *state.Txn, node string) bool {
	if l.nodes[node] {
		return true
	}
	n := tx.Node(node)
	return n != nil && !l.own[node] && slices.ContainsFunc(l.theirs, func(places func(*api.Node) bool) bool { return places(n) })
}

// runs is what the allocation provides of the plugin as long as it is not told to stop.
func runs(a *api.Allocation, plugin string) offer {
	if g := a.Group(); g != nil && a.ClientStatus == api.AllocClientStatusRunning && !a.ServerTerminal() {
		return groupOffers(g)[plugin]
	}
	return nil
}

// users names what needs the lost part of the plugin to end.
func (l loss) users(tx *state.Txn) []string {
	if !l.node && !l.controller && l.leaves == nil {
		return nil
	}
	var list []string
	claimed, others := map[string]bool{}, map[string]bool{}
	attaches := !l.controlled && mayAttach(tx, l.plugin)
	for c := range tx.Claims() {
		if c.PluginID != l.plugin {
			continue
		}
		if _, known := others[c.NodeID]; !known {
			others[c.NodeID] = l.elsewhere(tx, c.NodeID)
		}
		mount := Mounted(c) && !others[c.NodeID] && (l.node || l.leaves != nil && l.leaves(c.NodeID))
		if mount || attaches && c.State != api.ClaimWaiting {
			claimed[c.ExternalID+" "+c.NodeID] = true
			list = append(list, fmt.Sprintf("volume %q by allocation %s of job %q on node %s", c.VolumeID, c.AllocID, c.JobID, c.NodeID))
		}
	}
	if !l.controlled {
		for a := range tx.Attachments() {
			if a.PluginID == l.plugin && !claimed[a.ExternalID+" "+a.NodeID] {
				list = append(list, fmt.Sprintf("external volume %q attached to node %s", a.ExternalID, a.NodeID))
			}
		}
		list = append(list, l.underWay(tx)...)
	}
	if more := len(list) - usersShown; more > 0 {
		list = append(list[:usersShown], fmt.Sprintf("and %d more", more))
	}
	return list
}

// Mounted reports whether the volume of a claim may be mounted on its node.
func Mounted(c *api.VolumeClaim) bool {
	return c.State != api.ClaimWaiting && c.State != api.ClaimUnmounted
}

// mayAttach reports whether volumes of the plugin need its controller to get to and from nodes. They may while no
// controller has reported its capabilities.
func mayAttach(tx *state.Txn, plugin string) bool {
	reported := false
	for n := range tx.NodesByController(plugin) {
		if i := n.CSIControllerPlugins[plugin]; i != nil && i.ControllerInfo != nil {
			reported = true
			if i.ControllerInfo.SupportsAttachDetach {
				return true
			}
		}
	}
	return !reported
}

// underWay names the operations that only a lost controller can end.
func (l loss) underWay(tx *state.Txn) (list []string) {
	for v := range tx.VolumesByPlugin(l.plugin) {
		//exhaustive:enforce
		switch v.Provision.State {
		case api.VolumeAvailable, api.VolumeFailed:
		case api.VolumeCreating, api.VolumeExpanding, api.VolumeDeleting:
			list = append(list, fmt.Sprintf("volume %q, which is %s", v.ID, v.Provision.State))
		}
	}
	for i := range tx.SnapshotIntents() {
		if i.PluginID != l.plugin || i.Forgotten {
			continue
		}
		what := "made"
		if i.Delete {
			what = "deleted"
		}
		list = append(list, fmt.Sprintf("snapshot %q, which is being %s", i.Name, what))
	}
	return list
}
