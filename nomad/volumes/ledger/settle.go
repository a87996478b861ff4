package ledger

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// settle computes what follows by itself for one external volume and writes the differences.
func settle(tx *state.Txn, plugin, external string) error {
	before := claim.World{
		Claims:       slices.Collect(tx.ClaimsByExternal(plugin, external)),
		Attachments:  slices.Collect(tx.AttachmentsOf(plugin, external)),
		Attach:       Attaches(tx, plugin),
		Now:          tx.Now().UnixNano(),
		Index:        tx.Index(),
		ProviderNode: func(node string) string { return ProviderNode(tx, plugin, node) },
		Volume:       func(c *api.VolumeClaim) *api.Volume { return tx.Volume(c.Namespace, c.VolumeID) },
	}
	claims, attachments := claim.Settle(before)
	for _, c := range before.Claims {
		if !slices.ContainsFunc(claims, func(o *api.VolumeClaim) bool {
			return o.AllocID == c.AllocID && o.VolumeID == c.VolumeID && o.Namespace == c.Namespace
		}) {
			tx.DeleteClaim(c.Namespace, c.VolumeID, c.AllocID)
		}
	}
	for _, c := range claims {
		if !slices.Contains(before.Claims, c) {
			tx.PutClaim(c)
		}
	}
	for _, a := range attachments {
		if !slices.Contains(before.Attachments, a) {
			tx.PutAttachment(a)
		}
	}
	return nil
}

// Attaches reports whether the plugin attaches volumes to nodes: a controller says so, or a node
// instance says that a controller is required and none has said what it can do yet.
func Attaches(tx *state.Txn, plugin string) bool {
	required, known := false, false
	for n := range tx.NodesByPlugin(plugin) {
		if c := n.CSIControllerPlugins[plugin]; c != nil && c.ControllerInfo != nil {
			known = true
			if c.ControllerInfo.SupportsAttachDetach {
				return true
			}
		}
		if i := n.CSINodePlugins[plugin]; i != nil && i.RequiresControllerPlugin {
			required = true
		}
	}
	return required && !known
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
