package ledger

import (
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// canReadOnly reports whether a controller takes the read-only flag.
func canReadOnly(tx *state.Txn, plugin string) bool {
	for n := range tx.NodesByPlugin(plugin) {
		if i := n.CSIControllerPlugins[plugin]; i != nil && i.ControllerInfo != nil && i.ControllerInfo.SupportsReadOnlyAttach {
			return true
		}
	}
	return false
}

// Provider is the name of the driver whose healthy controllers the plugin has; "" when there are none, or of several
// drivers.
func Provider(tx *state.Txn, plugin string) string {
	name := ""
	for n := range tx.NodesByPlugin(plugin) {
		c, i := n.HealthyController(plugin), n.CSIControllerPlugins[plugin]
		switch {
		case c == nil:
		case i.Provider == "" || name != "" && i.Provider != name:
			return ""
		default:
			name = i.Provider
		}
	}
	return name
}

// Foreign is the name of a driver other than the given one whose healthy controllers the plugin has, so that a call may
// reach it; "" when there is none, or when no driver is given. The first by name is told of several.
func Foreign(tx *state.Txn, plugin, provider string) string {
	name := ""
	for n := range tx.NodesByPlugin(plugin) {
		if n.HealthyController(plugin) == nil || provider == "" {
			continue
		}
		if now := n.CSIControllerPlugins[plugin].Provider; now != "" && now != provider && (name == "" || now < name) {
			name = now
		}
	}
	return name
}

// ProviderNode is the driver's id of a node, or "".
func ProviderNode(tx *state.Txn, plugin, node string) string {
	n := tx.Node(node)
	if n == nil {
		return ""
	}
	return claim.ProviderNode(n, plugin)
}
