package ledger

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// canReadOnly reports whether a controller takes the read-only flag.
func canReadOnly(tx *state.Txn, plugin string) bool {
	for n := range tx.NodesByController(plugin) {
		if i := n.CSIControllerPlugins[plugin]; i != nil && i.ControllerInfo != nil && i.ControllerInfo.SupportsReadOnlyAttach {
			return true
		}
	}
	return false
}

// Drivers lists the names of the drivers whose healthy controllers the plugin has, in order; "" is one that has not
// reported its name.
func Drivers(tx *state.Txn, plugin string) (names []string) {
	for n := range tx.NodesByController(plugin) {
		if n.HealthyController(plugin) == nil {
			continue
		}
		if name := n.CSIControllerPlugins[plugin].Provider; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Strangers returns the driver of a claim's volume, "" where that is not known, and the names of other drivers that
// nodes report controllers of, in order. A node plugin of such a name is of another driver; of a name that no
// controller has it may be the other half of the volume's own.
func Strangers(tx *state.Txn, c *api.VolumeClaim, v *api.Volume) (driver string, others []string) {
	driver = v.Provision.Provider
	if a := tx.Attachment(c.PluginID, c.ExternalID, c.NodeID); a != nil && a.Provider != "" {
		driver = a.Provider
	}
	if driver == "" {
		return "", nil
	}
	for n := range tx.NodesByController(c.PluginID) {
		if i := n.CSIControllerPlugins[c.PluginID]; i != nil && i.Provider != "" && i.Provider != driver && !slices.Contains(others, i.Provider) {
			others = append(others, i.Provider)
		}
	}
	slices.Sort(others)
	return driver, others
}

// Provider is the name of the driver whose healthy controllers the plugin has; "" when there are none, or of several
// drivers.
func Provider(tx *state.Txn, plugin string) string {
	if names := Drivers(tx, plugin); len(names) == 1 {
		return names[0]
	}
	return ""
}

// Foreign is the name of a driver other than the given one whose healthy controllers the plugin has, so that a call
// may reach it; "" when there is none, or when no driver is given. Of several it is the first by name.
func Foreign(tx *state.Txn, plugin, provider string) string {
	name := ""
	for n := range tx.NodesByController(plugin) {
		if n.HealthyController(plugin) == nil || provider == "" {
			continue
		}
		if now := n.CSIControllerPlugins[plugin].Provider; now != "" && now != provider && (name == "" || now < name) {
			name = now
		}
	}
	return name
}

// Missing reports whether the plugin has healthy controllers of other drivers, and none that is, or may be, of the given one.
func Missing(tx *state.Txn, plugin, provider string) bool {
	return Foreign(tx, plugin, provider) != "" && !slices.ContainsFunc(Drivers(tx, plugin), func(d string) bool { return d == provider || d == "" })
}

// ProviderNode is the driver's id of a node, or "".
func ProviderNode(tx *state.Txn, plugin, node string) string {
	n := tx.Node(node)
	if n == nil {
		return ""
	}
	return claim.ProviderNode(n, plugin)
}
