package pluginview

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Capability is something that a controller may be able to do, by the name of the CSI specification.
type Capability struct {
	Name    string
	offered func(*api.CSIControllerInfo) bool
}

// Capabilities of controllers.
var (
	// Anything is what each controller can do.
	Anything        = Capability{"CONTROLLER_SERVICE", func(*api.CSIControllerInfo) bool { return true }}
	Attach          = Capability{"PUBLISH_UNPUBLISH_VOLUME", func(c *api.CSIControllerInfo) bool { return c.SupportsAttachDetach }}
	CreateDelete    = Capability{"CREATE_DELETE_VOLUME", func(c *api.CSIControllerInfo) bool { return c.SupportsCreateDelete }}
	Expand          = Capability{"EXPAND_VOLUME", func(c *api.CSIControllerInfo) bool { return c.SupportsExpand }}
	ExpandUnused    = Capability{"OFFLINE", func(c *api.CSIControllerInfo) bool { return c.OfflineExpansion }}
	ListVolumes     = Capability{"LIST_VOLUMES", func(c *api.CSIControllerInfo) bool { return c.SupportsListVolumes }}
	CreateSnapshots = Capability{"CREATE_DELETE_SNAPSHOT", func(c *api.CSIControllerInfo) bool { return c.SupportsCreateDeleteSnapshot }}
	ListSnapshots   = Capability{"LIST_SNAPSHOTS", func(c *api.CSIControllerInfo) bool { return c.SupportsListSnapshots }}
)

// Controllers lists the nodes that host a healthy controller of the plugin with the capability, in the order in which
// they are to be asked about an object. The order depends on the object, so that objects spread over all controllers,
// and changes only for those of a controller that comes or goes. The list is empty when healthy controllers lack the
// capability; a fault.Unavailable error describes why none is healthy.
func Controllers(tx *state.Txn, plugin, object string, c Capability) ([]string, error) {
	var ids, why []string
	healthy := false
	for n := range tx.NodesByController(plugin) {
		i := n.CSIControllerPlugins[plugin]
		if info := n.HealthyController(plugin); info != nil {
			healthy = true
			if c.offered(info) {
				ids = append(ids, n.ID)
			}
			continue
		}
		switch {
		case i == nil || i.ControllerInfo == nil:
		case n.Status != api.NodeStatusReady:
			why = append(why, fmt.Sprintf("node %s is %s", n.ID, n.Status))
		default:
			why = append(why, fmt.Sprintf("unhealthy on node %s: %s", n.ID, i.HealthDescription))
		}
	}
	if healthy {
		slices.SortFunc(ids, func(a, b string) int {
			return cmp.Or(cmp.Compare(weight(b, plugin, object), weight(a, plugin, object)), cmp.Compare(a, b))
		})
		return ids, nil
	}
	if len(why) == 0 {
		why = []string{"no node reports one"}
	}
	slices.Sort(why)
	return nil, fault.New(fault.Unavailable, "CSI plugin %q has no healthy controller (%s)", plugin, strings.Join(why, "; "))
}

// weight is how much a node is preferred for an object (rendezvous hashing).
func weight(node, plugin, object string) uint64 {
	h := fnv.New64a()
	for _, s := range []string{node, plugin, object} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	// FNV of strings that differ at their end only differs in few bits; the multiplications spread them.
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Capable reports whether a healthy controller has the capability.
func Capable(tx *state.Txn, plugin string, c Capability) (bool, error) {
	ids, err := Controllers(tx, plugin, "", c)
	return len(ids) > 0, err
}

// Needs refuses when the plugin's healthy controllers lack the capability.
func Needs(tx *state.Txn, plugin string, c Capability) error {
	ok, err := Capable(tx, plugin, c)
	if err == nil && !ok {
		err = fault.New(fault.Invalid, "CSI plugin %q does not support %s", plugin, c.Name)
	}
	return err
}

// ExpandsOnNodesOnly reports whether the plugin grows volumes on nodes and has no controller for it.
func ExpandsOnNodesOnly(tx *state.Txn, plugin string) (bool, error) {
	nodes := NodesExpand(tx, plugin)
	if !nodes || !HasController(tx, plugin) {
		return nodes, nil
	}
	byController, err := Capable(tx, plugin, Expand)
	return err == nil && !byController, err
}

// NodesExpand reports whether a healthy instance of the plugin grows volumes on its node.
func NodesExpand(tx *state.Txn, plugin string) bool {
	for n := range tx.NodesByPlugin(plugin) {
		if i := n.CSINodePlugins[plugin]; i != nil && i.Healthy && i.NodeInfo != nil && i.NodeInfo.SupportsExpand {
			return true
		}
	}
	return false
}
