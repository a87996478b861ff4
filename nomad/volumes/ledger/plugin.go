package ledger

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Attaches reports whether a controller must attach the plugin's volumes to nodes. While no healthy
// controller has said what it can do the answer is yes if one is required: the attachment is then
// intended and decided when a controller is there.
func Attaches(tx *state.Txn, plugin string) bool {
	required, reported, told := false, false, false
	for n := range tx.NodesByPlugin(plugin) {
		for _, i := range []*api.CSIInfo{n.CSINodePlugins[plugin], n.CSIControllerPlugins[plugin]} {
			if i == nil {
				continue
			}
			reported = true
			required = required || i.RequiresControllerPlugin
			if i.Healthy && i.ControllerInfo != nil {
				if i.ControllerInfo.SupportsAttachDetach {
					return true
				}
				told = true
			}
		}
	}
	switch {
	case told:
		return false
	case reported:
		return required
	}
	return true
}

// fences reports whether a controller is known to detach volumes, which cuts a node off. While none has
// said so it is not: a lease that was not needed costs nothing.
func fences(tx *state.Txn, plugin string) bool {
	for n := range tx.NodesByPlugin(plugin) {
		if i := n.CSIControllerPlugins[plugin]; i != nil && i.ControllerInfo != nil && i.ControllerInfo.SupportsAttachDetach {
			return true
		}
	}
	return false
}

// canReadOnly reports whether a controller takes the read-only flag.
func canReadOnly(tx *state.Txn, plugin string) bool {
	for n := range tx.NodesByPlugin(plugin) {
		if i := n.CSIControllerPlugins[plugin]; i != nil && i.ControllerInfo != nil && i.ControllerInfo.SupportsReadOnlyAttach {
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
	if i := n.CSINodePlugins[plugin]; i != nil && i.NodeInfo != nil {
		return i.NodeInfo.ID
	}
	return ""
}
