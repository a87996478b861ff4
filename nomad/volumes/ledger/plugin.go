package ledger

import (
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// canReadOnly reports whether a controller takes the read-only flag.
func canReadOnly(tx *state.Txn, plugin string) bool {
	for n := range tx.NodesByController(plugin) {
		if i := n.CSIControllerPlugins[plugin]; i != nil && i.OwnedBy == "" && i.ControllerInfo != nil && i.ControllerInfo.SupportsReadOnlyAttach {
			return true
		}
	}
	return false
}

// ProviderNode is the driver's id of a node, or "".
func ProviderNode(tx *state.Txn, plugin, node string) string {
	n := tx.Node(node)
	if n == nil {
		return ""
	}
	return claim.ProviderNode(n, plugin)
}
