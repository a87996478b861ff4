package ledger

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Assertion is an operator override: a node no longer uses an external volume. By and Reason are recorded.
type Assertion struct {
	PluginID, ExternalID, NodeID, By, Reason string
	// Seen is the index of the state that it is about; 0 is the present one.
	Seen uint64
	// Since is that of the newest of the mounts that it is about; 0 means all.
	Since int64
}

// later refuses the override for what was created after the state that it is about.
func (w Assertion) later(created uint64) error {
	if w.Seen == 0 || created <= w.Seen {
		return nil
	}
	return fault.New(fault.Conflict, "volume %q of plugin %q is used on node %s again: check it and retry", w.ExternalID, w.PluginID, w.NodeID)
}

// by returns who made the assertion.
func (w Assertion) by() string {
	if w.By == "" {
		return ByOperator
	}
	return ByOperator + " " + w.By
}

// Assert is [Evict] with the reason that an operator gave.
func Assert(tx *state.Txn, h Hold, proof, by, reason string) error {
	c, err := h.on(tx)
	if err != nil {
		return err
	}
	return Standard().unmounted(tx, c, evidence{proof, by, reason})
}

// Begins reports whether a claim has nothing on its node yet, not even an attach under way: it waits for the end of
// what an earlier one had there.
func Begins(tx *state.Txn, c *api.VolumeClaim) bool {
	a := tx.Attachment(c.PluginID, c.ExternalID, c.NodeID)
	return c.State == api.ClaimTaken && (a == nil || a.State == api.AttachmentUnpublishing)
}

// WriteOff ends the claims on the volume on the node and its attachment there, whatever the driver reports; claims
// that wait for that continue. What the node may still have mounted is recorded as stale. A reply to a call that is
// under way is refused from then on. A driver that may have been called is still called to detach the volume,
// unless it is attached there again; another override forgets that once it fails.
func WriteOff(tx *state.Txn, w Assertion) error {
	a := tx.Attachment(w.PluginID, w.ExternalID, w.NodeID)
	held := slices.DeleteFunc(Gather(tx, w.PluginID, w.ExternalID).Claims, func(c *api.VolumeClaim) bool {
		return c.NodeID != w.NodeID || c.State == api.ClaimWaiting || Begins(tx, c)
	})
	if a == nil && len(held) == 0 {
		if left := tx.WrittenOffTo(w.PluginID, w.ExternalID, w.NodeID); left != nil && left.LastError != "" {
			return w.forget(tx, left)
		}
		return fault.New(fault.NotFound, "plugin %q has no attachment of %q to node %s", w.PluginID, w.ExternalID, w.NodeID)
	}
	for _, c := range held {
		if err := w.later(c.CreateIndex); err != nil {
			return err
		}
	}
	if a != nil {
		if err := w.later(a.CreateIndex); err != nil {
			return err
		}
	}
	r := Standard()
	for _, c := range held {
		if c.State == api.ClaimUnmounted {
			continue
		}
		if err := r.unmounted(tx, c, evidence{ProofAssumed, w.by(), w.Reason}); err != nil {
			return err
		}
	}
	for _, c := range held {
		if now := HoldOf(c).claim(tx); now != nil {
			next := *now
			next.Proof, next.By, next.Reason = ProofAssumed, w.by(), w.Reason
			tx.PutClaim(&next)
		}
	}
	if len(held) == 0 {
		w.remember(tx, "")
	}
	if a != nil && !a.NotCalled && (a.ProviderNodeID != "" || a.Called) {
		tx.PutAttachment(writtenOff(tx, a)) // before what follows: an attach for who waited takes its place
	} else {
		tx.DeleteAttachment(w.PluginID, w.ExternalID, w.NodeID)
	}
	r.settle(tx, w.PluginID, w.ExternalID)
	return nil
}

// forget ends what was written off.
func (w Assertion) forget(tx *state.Txn, left *api.VolumeAttachment) error {
	if err := w.later(left.CreateIndex); err != nil {
		return err
	}
	w.remember(tx, "")
	tx.DeleteAttachment(w.PluginID, w.ExternalID, w.NodeID)
	Standard().settle(tx, w.PluginID, w.ExternalID)
	return nil
}

// WriteOffMounts forgets what the node may still have mounted of the volume.
func WriteOffMounts(tx *state.Txn, w Assertion) error {
	of := func(m *api.StaleMount) bool {
		return m.PluginID == w.PluginID && m.ExternalID == w.ExternalID && (w.Since == 0 || m.Since <= w.Since)
	}
	n := tx.Node(w.NodeID)
	if n == nil || !slices.ContainsFunc(n.StaleMounts, of) {
		return fault.New(fault.NotFound, "node %s has no mount of %q of plugin %q whose claim was released", w.NodeID, w.ExternalID, w.PluginID)
	}
	for _, m := range n.StaleMounts {
		if of(m) {
			w.remember(tx, m.AllocID)
		}
	}
	Standard().cleaned(tx, w.NodeID, of)
	return nil
}

// remember records the override on all specs of the volume where no claim does.
func (w Assertion) remember(tx *state.Txn, alloc string) {
	for _, v := range Gather(tx, w.PluginID, w.ExternalID).Specs {
		release(tx, v, &api.VolumeRelease{AllocID: alloc, NodeID: w.NodeID, Proof: ProofAssumed, By: w.by(), Reason: w.Reason})
	}
}
