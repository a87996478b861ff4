package ledger

import (
	"cmp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// StaleFor returns what keeps the claim from its node because it may still be mounted there for an evicted one, and
// the reason as text; nil when nothing does. An attach reaches the whole machine: for it the mounts of other nodes
// count that the driver calls by the same id, unless they were made in another boot. A machine whose agent lost its
// data directory is such a node, and its previous tasks may run.
func StaleFor(tx *state.Txn, c *api.VolumeClaim) (*api.StaleMount, string) {
	n := tx.Node(c.NodeID)
	if n == nil {
		return nil, ""
	}
	if m := claim.Stale(n, c.PluginID, c.ExternalID); m != nil {
		return m, claim.NotYet(c.Namespace, c.VolumeID, n.ID, m)
	}
	if !c.Attach {
		return nil, ""
	}
	o, m := claim.Twin(n, c.PluginID, c.ExternalID, tx.NodesByStaleMount(c.PluginID, c.ExternalID))
	if m == nil {
		return nil, ""
	}
	return m, claim.NotYetTwin(c.Namespace, c.VolumeID, n.ID, c.PluginID, o, m)
}

// Awaited reports whether another node on the same machine, by the id that a driver has of it, has no volume attached
// as long as this one may have it mounted. Its row must stay: nothing else knows of the mounts. Nodes that leave with this
// one wait for nothing.
func Awaited(tx *state.Txn, n *api.Node, leaves func(*api.Node) bool) bool {
	machines := map[string]map[string]bool{} // by plugin, what its driver calls the node, or called it
	for _, m := range n.StaleMounts {
		if machines[m.PluginID] == nil {
			machines[m.PluginID] = map[string]bool{claim.ProviderNode(n, m.PluginID): true}
		}
		machines[m.PluginID][m.ProviderNodeID] = true
	}
	for plugin, names := range machines {
		if delete(names, ""); len(names) == 0 || !Attaches(tx, plugin) {
			continue
		}
		for o := range tx.NodesByPlugin(plugin) {
			if o.ID != n.ID && names[claim.ProviderNode(o, plugin)] && !claim.Rebooted(n, o) && !leaves(o) {
				return true
			}
		}
	}
	return false
}

// Purged lets claims continue that waited for what the node had mounted, after its row is removed.
func Purged(tx *state.Txn, n *api.Node) {
	for _, m := range n.StaleMounts {
		Standard().settle(tx, m.PluginID, m.ExternalID)
	}
}

// Located adds the driver's id of the machine to mounts of the node that lack it, where its plugin reports it.
func Located(tx *state.Txn, n *api.Node) {
	for i, m := range n.StaleMounts {
		if id := claim.ProviderNode(n, m.PluginID); m.ProviderNodeID == "" && id != "" {
			next := *m
			next.ProviderNodeID = id
			n.StaleMounts[i] = &next
		}
	}
}

// machineOf is the driver's id of the machine on which a claim has the volume, by its attachment or by the node's
// plugin; empty where neither knows it.
func machineOf(tx *state.Txn, c *api.VolumeClaim) string {
	attached := ""
	if a := tx.Attachment(c.PluginID, c.ExternalID, c.NodeID); a != nil {
		attached = a.ProviderNodeID
	}
	return cmp.Or(attached, ProviderNode(tx, c.PluginID, c.NodeID))
}
