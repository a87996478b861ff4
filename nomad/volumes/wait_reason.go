package volumes

import (
	"cmp"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// waitsFor returns why a claim is not ready yet. The text changes with the rows and not with time.
func waitsFor(tx *state.Txn, ns string, r *api.VolumeClaimRequest) string {
	c := tx.Claim(ns, r.VolumeID, r.AllocID, r.Use)
	switch {
	case c == nil:
		return "the claim does not exist"
	case c.State == api.ClaimWaiting:
		return waitsBehind(tx, c)
	case ledger.ClaimHeld(tx, c):
		return cmp.Or(ledger.Held(tx, c.PluginID, c.ExternalID), claim.Held)
	}
	a := tx.Attachment(c.PluginID, c.ExternalID, c.NodeID)
	if a != nil && a.State == api.AttachmentUnpublishing {
		return stillAttached(tx, c, a)
	}
	if said := trouble(tx, c); said != "" {
		return said
	}
	if c.State == api.ClaimTaken {
		if m, why := ledger.StaleFor(tx, c); m != nil {
			return why
		}
	}
	if a != nil && a.State == api.AttachmentPublishing {
		if o := ledger.Elsewhere(tx, a); o != nil {
			return stillAttached(tx, c, o)
		}
	}
	for v := range tx.VolumesByExternal(c.PluginID, c.ExternalID) {
		if c.State == api.ClaimTaken && claim.GrowsOutOfUse(v) {
			return fmt.Sprintf("volume %q is being expanded, which its plugin does only while it is not in use", v.ID)
		}
	}
	return ledger.Next(tx, c)
}

// stillAttached describes an attachment whose end a claim waits for.
func stillAttached(tx *state.Txn, c *api.VolumeClaim, a *api.VolumeAttachment) string {
	return fmt.Sprintf("it is still attached to node %s, %s; `%s` asserts that it is not",
		a.NodeID, cmp.Or(failing(a), string(a.State)), ledger.DetachByForce(tx, c, a.NodeID))
}

// waitsBehind describes the claim that another one waits for.
func waitsBehind(tx *state.Txn, c *api.VolumeClaim) string {
	for held := range tx.ClaimsByExternal(c.PluginID, c.ExternalID) {
		if held.AllocID != c.Predecessor {
			continue
		}
		s := "held by " + claim.Holder(held, c.Namespace) + ": "
		if held.Namespace != c.Namespace { // errors and commands name what readers of this namespace may not see
			return s + ledger.Next(tx, held)
		}
		a := tx.Attachment(held.PluginID, held.ExternalID, held.NodeID)
		if held.State == api.ClaimUnmounted && a != nil && a.State == api.AttachmentUnpublishing {
			return s + stillAttached(tx, held, a)
		}
		if said := trouble(tx, held); said != "" {
			if held.State == api.ClaimReleasing {
				said += "; `" + ledger.Remedy(tx, held) + "` ends it"
			}
			return s + said
		}
		return s + ledger.Next(tx, held)
	}
	return ledger.Next(tx, c)
}

// trouble is the error that keeps a claim from continuing, with the next attempt.
func trouble(tx *state.Txn, c *api.VolumeClaim) string {
	if c.LastError != "" {
		return c.LastError + again(0, c.NextRetry)
	}
	return failing(tx.Attachment(c.PluginID, c.ExternalID, c.NodeID))
}

// failing is the error of the last call for an attachment.
func failing(a *api.VolumeAttachment) string {
	if a == nil || a.LastError == "" {
		return ""
	}
	return string(a.State) + ": " + a.LastError + again(a.Attempts, a.NextRetry)
}

func again(tries int, next int64) string {
	if next == 0 {
		return ""
	}
	at := time.Unix(0, next).UTC().Format(time.RFC3339)
	if tries == 0 {
		return " (again at " + at + ")"
	}
	return fmt.Sprintf(" (try %d, again at %s)", tries, at)
}
