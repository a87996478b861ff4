package ledger

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// Proofs that nothing uses a volume on its node any more, from strong to weak.
const (
	// ProofReleased is a report of the node.
	ProofReleased = "released"
	// ProofFenced is a detach by the storage or the end of a lease.
	ProofFenced = "fenced"
	// ProofAssumed is an operator override or a policy.
	ProofAssumed = "assumed"
)

// Sources of proofs.
const (
	ByNode     = "node"
	ByProvider = "provider"
	ByLease    = "lease"
	ByBoot     = "boot id"
	ByHook     = "hook"
	ByOperator = "operator"
	ByPolicy   = "policy"
)

// AllocChanged moves the claims of an allocation that has ended, or should end: what cannot be mounted yet is released
// at once, what may be mounted waits for the node's report.
func AllocChanged(tx *state.Txn, alloc *api.Allocation) error {
	return Standard().AllocChanged(tx, alloc)
}

// NodeChanged settles everything on a node whose status or plugins changed.
func NodeChanged(tx *state.Txn, nodeID string) error { return Standard().NodeChanged(tx, nodeID) }

// Hold names a claim, and with NodeID the node that it must be on.
type Hold struct{ Namespace, VolumeID, AllocID, Use, NodeID string }

// HoldOf names a claim.
func HoldOf(c *api.VolumeClaim) Hold {
	return Hold{c.Namespace, c.VolumeID, c.AllocID, c.Use, c.NodeID}
}

// anywhere names the claim whatever its node is.
func (h Hold) anywhere() Hold {
	h.NodeID = ""
	return h
}

// String names the claim in errors.
func (h Hold) String() string {
	s := fmt.Sprintf("claim of allocation %s on volume %q in namespace %q", h.AllocID, h.VolumeID, h.Namespace)
	if h.Use != "" {
		s += fmt.Sprintf(" (as %q)", h.Use)
	}
	return s
}

func (h Hold) claim(tx *state.Txn) *api.VolumeClaim {
	return tx.Claim(h.Namespace, h.VolumeID, h.AllocID, h.Use)
}

// Released records that nothing of the volume is mounted for the claim any more.
func Released(tx *state.Txn, h Hold) error { return Standard().Released(tx, h) }

// ReleaseFailed notes why the volume is not unmounted yet, and when that may change; the claim stays.
func ReleaseFailed(tx *state.Txn, h Hold, reason string, nextRetry int64) error {
	return Standard().ReleaseFailed(tx, h, reason, nextRetry)
}

// MountWaits notes why a ready claim is not mounted yet, and when that may change; no reason takes the note back.
func MountWaits(tx *state.Txn, h Hold, reason string, nextRetry int64) error {
	c, err := h.on(tx)
	if err == nil && c.State != api.ClaimReady {
		err = fault.New(fault.Conflict, "%s is %s", h, c.State)
	}
	if err != nil {
		return err
	}
	return Standard().ReleaseFailed(tx, h, reason, nextRetry)
}

// Evict moves a claim to unmounted without the node's report; proof and by record the reason and its source.
func Evict(tx *state.Txn, h Hold, proof, by string) error { return Standard().Evict(tx, h, proof, by) }

// Rebooted releases what a node was to unmount: it came back from another boot, which removed the mounts. mounts are
// those of the present boot.
func Rebooted(tx *state.Txn, nodeID string, mounts []*api.StaleMount) error {
	mounted := func(h Hold) bool { return slices.ContainsFunc(mounts, h.stale) }
	Standard().cleaned(tx, nodeID, func(m *api.StaleMount) bool {
		return !mounted(Hold{m.Namespace, m.VolumeID, m.AllocID, m.Use, nodeID})
	})
	for _, c := range slices.Collect(tx.ClaimsByNode(nodeID)) {
		if c.State != api.ClaimReleasing || mounted(HoldOf(c)) {
			continue
		}
		if err := Standard().unmounted(tx, c, evidence{ProofFenced, ByBoot, ""}); err != nil {
			return err
		}
	}
	return nil
}

// AllocChanged is [AllocChanged] by these rules.
func (r Rules) AllocChanged(tx *state.Txn, alloc *api.Allocation) error {
	if !alloc.Terminal() {
		return nil
	}
	return r.over(tx, slices.Collect(tx.ClaimsByAlloc(alloc.ID)))
}

// over moves claims whose allocation has ended, or should end.
func (r Rules) over(tx *state.Txn, claims []*api.VolumeClaim) error {
	for _, known := range claims {
		// Settling one claim may have changed the next: it may be of the same external volume.
		c := HoldOf(known).claim(tx)
		if c == nil {
			continue
		}
		var to api.ClaimState
		switch c.State {
		case api.ClaimWaiting:
		case api.ClaimTaken:
			to = api.ClaimUnmounted
		case api.ClaimReady:
			to = api.ClaimReleasing
		default:
			continue
		}
		if err := r.move(tx, c, to); err != nil {
			return err
		}
		r.settle(tx, c.PluginID, c.ExternalID)
	}
	return nil
}

// Forgotten reports whether a claim should have followed its allocation and did not.
func Forgotten(tx *state.Txn, c *api.VolumeClaim) bool {
	if claim.Leaving(c.State) {
		return false
	}
	a := tx.Alloc(c.AllocID)
	return a == nil || a.Terminal()
}

// Reconcile lets forgotten claims follow their allocations, and settles their external volumes, each once.
func Reconcile(tx *state.Txn, claims []*api.VolumeClaim) error {
	r, seen := Standard(), map[[2]string]bool{}
	for _, c := range claims {
		if now := HoldOf(c).claim(tx); now != nil && Forgotten(tx, now) {
			if err := r.over(tx, []*api.VolumeClaim{now}); err != nil {
				return err
			}
		}
		if e := [2]string{c.PluginID, c.ExternalID}; !seen[e] {
			seen[e] = true
			r.settle(tx, c.PluginID, c.ExternalID)
		}
	}
	return nil
}

// NodeChanged is [NodeChanged] by these rules.
func (r Rules) NodeChanged(tx *state.Txn, nodeID string) error {
	for _, c := range slices.Collect(tx.ClaimsByNode(nodeID)) {
		r.settle(tx, c.PluginID, c.ExternalID)
	}
	if n := tx.Node(nodeID); n != nil { // others on its machine may wait for its mounts
		for _, m := range n.StaleMounts {
			r.settle(tx, m.PluginID, m.ExternalID)
		}
	}
	return nil
}

// Released is [Released] by these rules.
func (r Rules) Released(tx *state.Txn, h Hold) error {
	c, err := h.on(tx)
	switch {
	case err == nil && c.State == api.ClaimUnmounted && c.Presumed:
		r.cleaned(tx, h.NodeID, h.stale)
		return r.confirmed(tx, c)
	case err == nil:
		if err := r.unmounted(tx, c, evidence{ProofReleased, ByNode, ""}); err != nil {
			return err
		}
		r.cleaned(tx, h.NodeID, h.stale)
		return nil
	case c == nil && r.cleaned(tx, h.NodeID, h.stale):
		return nil
	}
	return err
}

// ReleaseFailed is [ReleaseFailed] by these rules.
func (r Rules) ReleaseFailed(tx *state.Txn, h Hold, reason string, nextRetry int64) error {
	c, err := h.on(tx)
	switch {
	case (c == nil || c.Presumed) && cleanFailed(tx, h, reason):
		return nil
	case err != nil || c.LastError == reason && c.NextRetry == nextRetry:
		return err
	}
	if !r.Legal(c.State, api.ClaimUnmounted) {
		return fault.New(fault.Conflict, "%s is %s", h, c.State)
	}
	next := *c
	next.LastError, next.NextRetry = reason, nextRetry
	tx.PutClaim(&next)
	return nil
}

// Evict is [Evict] by these rules.
func (r Rules) Evict(tx *state.Txn, h Hold, proof, by string) error {
	c, err := h.on(tx)
	if err != nil {
		return err
	}
	return r.unmounted(tx, c, evidence{proof, by, ""})
}

// evidence is why a volume is treated as unused on its node.
type evidence struct{ proof, by, reason string }

func (r Rules) unmounted(tx *state.Txn, c *api.VolumeClaim, w evidence) error {
	to := api.ClaimUnmounted
	if c.State == api.ClaimWaiting {
		to = ""
	}
	if err := r.move(tx, c, to); err != nil {
		return err
	}
	if to != "" && c.State != api.ClaimTaken {
		next := *HoldOf(c).claim(tx)
		next.Proof, next.By, next.Reason = w.proof, w.by, w.reason
		// A reboot removes all previous mounts, which is as good as the node's report.
		next.Presumed = w.proof != ProofReleased && w.by != ByBoot
		tx.PutClaim(&next)
		if next.Presumed {
			givenUp(tx, &next, w.by == ByPolicy && !cutOff(tx, c) && !claim.Contested(c, slices.Collect(tx.VolumesByExternal(c.PluginID, c.ExternalID))))
		}
	}
	if a := tx.Attachment(c.PluginID, c.ExternalID, c.NodeID); a != nil && to != "" && weaker(w.proof, a.Proof) {
		next := *a
		next.Proof = w.proof
		tx.PutAttachment(&next)
	}
	r.settle(tx, c.PluginID, c.ExternalID)
	return nil
}

// cutOff reports whether the detach that follows cuts the node of a claim off, regardless of who evicted it and of what others
// may do with the volume.
func cutOff(tx *state.Txn, c *api.VolumeClaim) bool {
	return c.Attach && !claim.NeverAttached(tx.Attachment(c.PluginID, c.ExternalID, c.NodeID))
}

// confirmed records that a node with an evicted claim has unmounted after all.
func (r Rules) confirmed(tx *state.Txn, c *api.VolumeClaim) error {
	next := *c
	next.Presumed, next.Proof, next.By = false, ProofReleased, ByNode
	tx.PutClaim(&next)
	r.settle(tx, c.PluginID, c.ExternalID)
	return nil
}

// weaker reports whether a proof is weaker than the recorded one: the claims of a node may have ended in different
// ways.
func weaker(proof, recorded string) bool {
	order := []string{"", ProofReleased, ProofFenced, ProofAssumed}
	return slices.Index(order, proof) > slices.Index(order, recorded)
}

// on returns the claim, provided that it is on the node.
func (h Hold) on(tx *state.Txn) (*api.VolumeClaim, error) {
	c := h.claim(tx)
	switch {
	case c == nil:
		return nil, fault.New(fault.NotFound, "%s does not exist", h)
	case h.NodeID != "" && c.NodeID != h.NodeID:
		return nil, fault.New(fault.Denied, "%s is on node %s, not on %s", h, c.NodeID, h.NodeID)
	}
	return c, nil
}

// move changes the state of a claim as an outside event asks; "" deletes it.
func (r Rules) move(tx *state.Txn, c *api.VolumeClaim, to api.ClaimState) error {
	if !r.Legal(c.State, to) {
		return fault.New(fault.Conflict, "%s is %s and cannot become %q", HoldOf(c), c.State, to)
	}
	if to == "" {
		tx.DeleteClaim(c.Namespace, c.VolumeID, c.AllocID, c.Use)
		return nil
	}
	next := *c
	next.State, next.Since, next.LastError, next.NextRetry = to, tx.Now().UnixNano(), "", 0
	tx.PutClaim(&next)
	return nil
}
