package ledger

import (
	"fmt"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Owner returns the name of the driver that a plugin id belongs to: the driver of the volumes that are registered with
// the id. It is "" while there are none.
func Owner(tx *state.Txn, plugin string) string {
	for v := range tx.VolumesByPlugin(plugin) {
		if v.Provision.Provider != "" {
			return v.Provision.Provider
		}
	}
	return ""
}

// Driver returns the name of the driver that a new volume or snapshot of a plugin id belongs to: the owner of the id, or
// the driver of the healthy instances. It returns an error when there are none, or when they run several drivers.
func Driver(tx *state.Txn, plugin string) (string, error) {
	if owner := Owner(tx, plugin); owner != "" {
		return owner, nil
	}
	names := map[string]bool{}
	for n := range tx.NodesByPlugin(plugin) {
		for _, i := range []*api.CSIInfo{n.CSIControllerPlugins[plugin], n.CSINodePlugins[plugin]} {
			if i != nil && i.Healthy && n.Status == api.NodeStatusReady {
				names[i.Provider] = true
			}
		}
	}
	if len(names) > 1 {
		delete(names, "") // an instance that does not report its name
	}
	switch list := slices.Sorted(maps.Keys(names)); len(list) {
	case 0:
		return "", fault.New(fault.Unavailable, "CSI plugin %q has no healthy instance: see `nomad plugin status`", plugin)
	case 1:
		return list[0], nil
	default:
		return "", fault.New(fault.Conflict, "CSI plugin %q has healthy instances of drivers %q and %q, and a plugin id belongs to one driver: run the other under another plugin id",
			plugin, list[0], list[1])
	}
}

// OwnerChanged marks the instances of a plugin id again when its owner is no longer the given one.
func OwnerChanged(tx *state.Txn, plugin, owner string) {
	if Owner(tx, plugin) == owner {
		return
	}
	for _, n := range slices.Collect(tx.NodesByPlugin(plugin)) {
		next := *n
		if MarkOwned(tx, &next) {
			tx.PutNode(&next)
		}
	}
}

// MarkOwned marks the instances on a node unhealthy that run another driver than the owner of their plugin id, removes
// marks that no longer hold, and reports whether anything has changed.
func MarkOwned(tx *state.Txn, n *api.Node) (changed bool) {
	for _, plugins := range []*map[string]*api.CSIInfo{&n.CSIControllerPlugins, &n.CSINodePlugins} {
		for id, i := range *plugins {
			owner := Owner(tx, id)
			if i == nil || i.Provider == "" || i.Provider == owner {
				owner = ""
			}
			if i == nil || i.OwnedBy == owner {
				continue
			}
			next := *i
			if i.OwnedBy != "" && i.HealthDescription == owned(id, i) {
				next.Healthy, next.HealthDescription = true, "healthy"
			}
			if next.OwnedBy = owner; owner != "" && next.Healthy {
				next.Healthy, next.HealthDescription = false, owned(id, &next)
			}
			*plugins, changed = maps.Clone(*plugins), true
			(*plugins)[id] = &next
		}
	}
	return changed
}

// owned returns why an instance of another driver than the owner of its plugin id is unhealthy.
func owned(id string, i *api.CSIInfo) string {
	return fmt.Sprintf("plugin id %q belongs to driver %q while its volumes exist; this instance runs driver %q: run it under another plugin id, or deregister the volumes",
		id, i.OwnedBy, i.Provider)
}
