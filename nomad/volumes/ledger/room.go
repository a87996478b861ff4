package ledger

import (
	"maps"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// NoRoom notes until when no more of the plugin's volumes are placed on the node than it has beside the
// external volume that the driver found no room for.
func NoRoom(tx *state.Txn, plugin, external, node string, until int64) {
	n := tx.Node(node)
	if n == nil {
		return
	}
	here := map[string]bool{}
	for c := range tx.ClaimsByNode(node) {
		if c.PluginID == plugin && c.State != api.ClaimWaiting {
			here[c.ExternalID] = true
		}
	}
	for a := range tx.AttachmentsByNode(node) {
		if a.PluginID == plugin {
			here[a.ExternalID] = true
		}
	}
	delete(here, external)
	limit(tx, n, plugin, &api.CSILimit{Volumes: int64(len(here)), Until: until})
}

// Room notes that the node has room for the plugin's volumes after all.
func Room(tx *state.Txn, plugin, node string) {
	if n := tx.Node(node); n != nil && n.CSILimits[plugin] != nil {
		limit(tx, n, plugin, nil)
	}
}

// ExpireRoom forgets the limits of nodes whose time is over.
func ExpireRoom(tx *state.Txn) {
	var over []*api.Node
	for n := range tx.Nodes() {
		if len(n.CSILimits) > 0 {
			over = append(over, n)
		}
	}
	now := tx.Now().UnixNano()
	for _, n := range over {
		next := *n
		next.CSILimits = maps.Clone(n.CSILimits)
		maps.DeleteFunc(next.CSILimits, func(_ string, l *api.CSILimit) bool { return l.Until <= now })
		if len(next.CSILimits) < len(n.CSILimits) {
			tx.PutNode(&next)
		}
	}
}

// limit puts the limit of one plugin; nil takes it away.
func limit(tx *state.Txn, n *api.Node, plugin string, l *api.CSILimit) {
	next := *n
	next.CSILimits = maps.Clone(n.CSILimits)
	if next.CSILimits == nil {
		next.CSILimits = map[string]*api.CSILimit{}
	}
	next.CSILimits[plugin] = l
	if l == nil {
		delete(next.CSILimits, plugin)
	}
	tx.PutNode(&next)
}
