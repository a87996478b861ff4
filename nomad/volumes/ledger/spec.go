package ledger

import (
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
)

// SpecOf is the volume by which a claim was taken; nil when it was deregistered since, also when its id is that of another
// external volume now.
func SpecOf(tx *state.Txn, c *api.VolumeClaim) *api.Volume {
	return specOf(tx, c.Namespace, c.VolumeID, c.PluginID, c.ExternalID)
}

func specOf(tx *state.Txn, namespace, id, plugin, external string) *api.Volume {
	v := tx.Volume(namespace, id)
	if v == nil || v.PluginID != plugin || v.RemoteID() != external {
		return nil
	}
	return v
}

// ClaimsOf lists the claims that were taken by a volume. Those of an external volume that had its id before are not of it.
func ClaimsOf(tx *state.Txn, v *api.Volume) []*api.VolumeClaim {
	return slices.DeleteFunc(slices.Collect(tx.ClaimsByVolume(v.Namespace, v.ID)), func(c *api.VolumeClaim) bool { return SpecOf(tx, c) == nil })
}

// DetachByForce is the command that ends what the external volume of a claim has on a node, by an operator override.
func DetachByForce(tx *state.Txn, c *api.VolumeClaim, node string) string {
	if tx.Volume(c.Namespace, c.VolumeID) != nil && SpecOf(tx, c) == nil {
		return commandtext.DetachExternal(c.PluginID, c.ExternalID, node)
	}
	return commandtext.DetachByForce(c.Namespace, c.VolumeID, node)
}

// LossPolicy returns what releases a volume of a claim from a lost node, and after which time its storage does: as its
// volume's spec defines it, else as it was last recorded.
func LossPolicy(tx *state.Txn, c *api.VolumeClaim) (onNodeLoss string, fenceAfter time.Duration) {
	if v := SpecOf(tx, c); v != nil {
		return v.OnNodeLoss, v.FenceAfter
	}
	return c.OnNodeLoss, c.FenceAfter
}

// policed copies the volume's policy for the loss of a node to a claim.
func policed(tx *state.Txn, c *api.VolumeClaim, v *api.Volume) {
	c.OnNodeLoss, c.FenceAfter = v.OnNodeLoss, v.FenceAfter
}

// LeavePolicy copies a volume's policy for the loss of a node to its claims. It is called before the volume is
// forgotten.
func LeavePolicy(tx *state.Txn, v *api.Volume) {
	for _, c := range ClaimsOf(tx, v) {
		next := *c
		if policed(tx, &next, v); next.OnNodeLoss != c.OnNodeLoss || next.FenceAfter != c.FenceAfter {
			tx.PutClaim(&next)
		}
	}
}
