package ledger

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Proofs that detaching was safe.
const (
	ProofReleased = "released"
	ProofFenced   = "fenced"
	ProofAssumed  = "assumed"
)

// AttachmentOf names an attachment and the intent behind a call about it.
type AttachmentOf struct {
	PluginID, ExternalID, NodeID string
	// Fence is that of the row when the call began; another one means that the row was re-made.
	Fence uint64
}

// current returns the row that the call was about, or nil when it is no longer the same.
func current(tx *state.Txn, of AttachmentOf, want api.AttachmentState) (*api.VolumeAttachment, error) {
	a := tx.Attachment(of.PluginID, of.ExternalID, of.NodeID)
	if a == nil || a.Fence != of.Fence || a.State != want {
		return nil, fault.New(fault.Conflict, "attachment of %s to node %s has changed meanwhile", of.ExternalID, of.NodeID)
	}
	return a, nil
}

// Published records that the driver attached the volume.
func Published(tx *state.Txn, of AttachmentOf, publishContext map[string]string) error {
	a, err := current(tx, of, api.AttachmentPublishing)
	if err != nil {
		return err
	}
	next := *a
	next.State, next.PublishContext, next.Since = api.AttachmentPublished, publishContext, tx.Now().UnixNano()
	next.LastError, next.NextRetry, next.Attempts = "", 0, 0
	tx.PutAttachment(&next)
	return settle(tx, of.PluginID, of.ExternalID)
}

// Unpublished records that the driver detached the volume.
func Unpublished(tx *state.Txn, of AttachmentOf) error {
	if _, err := current(tx, of, api.AttachmentUnpublishing); err != nil {
		return err
	}
	tx.DeleteAttachment(of.PluginID, of.ExternalID, of.NodeID)
	return settle(tx, of.PluginID, of.ExternalID)
}

// CallFailed notes why publishing or unpublishing did not succeed and when it is tried again.
func CallFailed(tx *state.Txn, of AttachmentOf, reason string, nextRetry int64) error {
	a := tx.Attachment(of.PluginID, of.ExternalID, of.NodeID)
	if a == nil || a.Fence != of.Fence {
		return nil
	}
	next := *a
	next.LastError, next.NextRetry, next.Attempts = reason, nextRetry, a.Attempts+1
	tx.PutAttachment(&next)
	return nil
}

// NotAttaching drops a publishing row of a driver that turned out not to attach.
func NotAttaching(tx *state.Txn, of AttachmentOf) error {
	if _, err := current(tx, of, api.AttachmentPublishing); err != nil {
		return err
	}
	tx.DeleteAttachment(of.PluginID, of.ExternalID, of.NodeID)
	return settle(tx, of.PluginID, of.ExternalID)
}

// Evict moves every claim of a volume on a node to unmounted: an operator, a fence or a lease says
// that the node no longer uses it. The proof is kept on the attachment.
func Evict(tx *state.Txn, ns, volume, node, proof string) (int, error) {
	var moved int
	for _, c := range claimsOn(tx, ns, volume, node) {
		switch c.State {
		case api.ClaimUnmounted:
			continue
		case api.ClaimWaiting:
			tx.DeleteClaim(c.Namespace, c.VolumeID, c.AllocID)
		default:
			next := *c
			next.State, next.Since, next.LastError, next.NextRetry = api.ClaimUnmounted, tx.Now().UnixNano(), "", 0
			tx.PutClaim(&next)
		}
		moved++
		if a := tx.Attachment(c.PluginID, c.ExternalID, node); a != nil {
			noted := *a
			noted.Proof = proof
			tx.PutAttachment(&noted)
		}
		if err := settle(tx, c.PluginID, c.ExternalID); err != nil {
			return moved, err
		}
	}
	return moved, nil
}

func claimsOn(tx *state.Txn, ns, volume, node string) []*api.VolumeClaim {
	var found []*api.VolumeClaim
	for c := range tx.ClaimsByVolume(ns, volume) {
		if c.NodeID == node {
			found = append(found, c)
		}
	}
	return found
}
