package pluginview

import "github.com/open-nomad/open-nomad/nomad/state"

// Places reports whether a healthy controller of the plugin accepts where a volume is to be created: it announces
// VOLUME_ACCESSIBILITY_CONSTRAINTS. Others must not be sent any topologies.
func Places(tx *state.Txn, plugin string) bool {
	for n := range tx.NodesByController(plugin) {
		if n.HealthyController(plugin) != nil && n.CSIControllerPlugins[plugin].RequiresTopologies {
			return true
		}
	}
	return false
}
