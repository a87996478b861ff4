package state

import (
	"iter"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// NodeKey is one node's row.
func NodeKey(id string) Key { return Key{TableNodes, "id", id} }

func pluginsOfNode(n *api.Node) []string {
	ids := slices.Collect(maps.Keys(n.CSINodePlugins))
	for id := range n.CSIControllerPlugins {
		if _, both := n.CSINodePlugins[id]; !both {
			ids = append(ids, id)
		}
	}
	return ids
}

func controllersOfNode(n *api.Node) []string {
	return slices.Collect(maps.Keys(n.CSIControllerPlugins))
}

// staleOnNode returns the external volumes that the node may still have mounted for abandoned claims.
func staleOnNode(n *api.Node) (keys []string) {
	for _, m := range n.StaleMounts {
		keys = append(keys, rowKey(m.PluginID, m.ExternalID))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Node returns the node, or nil.
func (t *Txn) Node(id string) *api.Node { return nodes.get(t, id) }

// Nodes lists all nodes by id.
func (t *Txn) Nodes() iter.Seq[*api.Node] { return nodes.all(t) }

// NodesByPlugin lists the nodes that report an instance of the CSI plugin.
func (t *Txn) NodesByPlugin(plugin string) iter.Seq[*api.Node] {
	return nodes.list(t, "plugin", plugin)
}

// NodesByController lists the nodes that report a controller of the CSI plugin; all may have instances of it.
func (t *Txn) NodesByController(plugin string) iter.Seq[*api.Node] {
	return nodes.list(t, "controller", plugin)
}

// NodesByStaleMount lists the nodes that may still have an external volume mounted for abandoned claims.
func (t *Txn) NodesByStaleMount(plugin, external string) iter.Seq[*api.Node] {
	return nodes.list(t, "stale", rowKey(plugin, external))
}

// PutNode stores the node.
func (t *Txn) PutNode(n *api.Node) { nodes.put(t, n) }

// DeleteNode deletes the node and reports whether there was one.
func (t *Txn) DeleteNode(id string) bool { return nodes.remove(t, t.Node(id)) }
