package volumes

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// growable refuses while somebody uses a volume that its plugin expands only out of use.
func growable(tx *state.Txn, v *api.Volume) error {
	offline, err := capable(tx, v.PluginID, func(c *api.CSIControllerInfo) bool { return c.OfflineExpansion })
	if err != nil || !offline {
		return err
	}
	if held := slices.Collect(tx.ClaimsByExternal(v.PluginID, v.RemoteID())); len(held) > 0 {
		return fault.New(fault.Conflict, "plugin %q expands volumes only while nobody uses them, and volume %q is held by %s",
			v.PluginID, v.ID, holders(held))
	}
	for a := range tx.AttachmentsOf(v.PluginID, v.RemoteID()) {
		return fault.New(fault.Conflict, "plugin %q expands volumes only while nobody uses them, and volume %q is attached to node %s (%s)",
			v.PluginID, v.ID, a.NodeID, a.State)
	}
	return nil
}
