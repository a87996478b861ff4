package ledger

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// AllocChanged moves the claims of an allocation that became terminal. A claim whose node cannot
// have mounted yet is unmounted at once; one that was ready waits for the node's report.
func AllocChanged(tx *state.Txn, alloc *api.Allocation) error {
	if !alloc.Terminal() {
		return nil
	}
	for _, c := range slices.Collect(tx.ClaimsByAlloc(alloc.ID)) {
		switch c.State {
		case api.ClaimWaiting:
			tx.DeleteClaim(c.Namespace, c.VolumeID, c.AllocID)
		case api.ClaimTaken:
			if err := move(tx, c, api.ClaimUnmounted); err != nil {
				return err
			}
		case api.ClaimReady:
			if !alloc.ClientTerminal() {
				continue // the node still runs it and will report
			}
			if err := move(tx, c, api.ClaimReleasing); err != nil {
				return err
			}
		default:
			continue
		}
		if err := settle(tx, c.PluginID, c.ExternalID); err != nil {
			return err
		}
	}
	return nil
}

// NodeChanged settles everything on a node whose status or plugins changed.
func NodeChanged(tx *state.Txn, nodeID string) error {
	for _, c := range slices.Collect(tx.ClaimsByNode(nodeID)) {
		if err := settle(tx, c.PluginID, c.ExternalID); err != nil {
			return err
		}
	}
	return nil
}

// Released records that nothing of the volume is mounted for the allocation any more. A report
// about a claim that is gone is no error.
func Released(tx *state.Txn, ns, volume, alloc, node string) error {
	c := tx.Claim(ns, volume, alloc)
	if c == nil || c.State == api.ClaimUnmounted {
		return nil
	}
	if node != "" && c.NodeID != node {
		return fault.New(fault.Denied, "%s belongs to node %s, not to %s", describe(c), c.NodeID, node)
	}
	if c.State == api.ClaimWaiting {
		tx.DeleteClaim(ns, volume, alloc)
	} else if err := move(tx, c, api.ClaimUnmounted); err != nil {
		return err
	}
	return settle(tx, c.PluginID, c.ExternalID)
}

// ReleaseFailed notes why the node could not unmount; the claim stays.
func ReleaseFailed(tx *state.Txn, ns, volume, alloc, reason string, nextRetry int64) {
	c := tx.Claim(ns, volume, alloc)
	if c == nil || c.LastError == reason && c.NextRetry == nextRetry {
		return
	}
	next := *c
	next.LastError, next.NextRetry = reason, nextRetry
	tx.PutClaim(&next)
}

// Resettle settles one external volume again, for a leader that starts.
func Resettle(tx *state.Txn, plugin, external string) error { return settle(tx, plugin, external) }
