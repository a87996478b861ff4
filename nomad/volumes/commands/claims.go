package commands

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Apply records the node's report.
func (c *Report) Apply(tx *state.Txn) (any, error) {
	h := ledger.Hold{Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, Use: c.Use, NodeID: c.NodeID}
	held := tx.Claim(c.Namespace, c.VolumeID, c.AllocID, c.Use)
	if c.LimitExpiry != 0 && held != nil && held.NodeID == c.NodeID {
		ledger.LearnLimit(tx, held.PluginID, held.ExternalID, c.NodeID, c.LimitExpiry)
	}
	switch {
	case c.Mounting:
		return nil, ledger.MountWaits(tx, h, c.Reason, c.NextRetry)
	case c.Reason != "":
		return nil, ledger.ReleaseFailed(tx, h, c.Reason, c.NextRetry)
	}
	if err := ledger.Released(tx, h); err != nil {
		return nil, err
	}
	if held == nil || ledger.SpecOf(tx, held) != nil {
		ledger.Measured(tx, c.Namespace, c.VolumeID, time.Duration(c.WriteBack))
	}
	return nil, nil
}

// Apply releases the claims. It skips those that no longer exist.
func (c *Evict) Apply(tx *state.Txn) (any, error) {
	if c.Lost && !ledger.Away(tx.Node(c.NodeID)) {
		return nil, fault.New(fault.Conflict, "node %s has come back", c.NodeID)
	}
	list := c.claims(tx)
	for _, held := range list {
		if err := ledger.Assert(tx, ledger.HoldOf(held), c.Proof, c.By, c.Reason); err != nil {
			return nil, err
		}
	}
	if c.Proof != ledger.ProofReleased {
		deprived(tx, list)
	}
	for _, held := range list {
		if strings.HasPrefix(c.By, ledger.ByOperator) {
			ledger.ReleaseHeld(tx, held.PluginID, held.ExternalID, c.NodeID)
		}
	}
	return nil, nil
}

// deprived evaluates the jobs of allocations that keep running although their claims were evicted: what they write now
// is lost, or is concurrent with another writer. Allocations whose node is not heard are evaluated when it is back.
func deprived(tx *state.Txn, claims []*api.VolumeClaim) {
	seen := map[[2]string]bool{}
	for _, c := range claims {
		a := tx.Alloc(c.AllocID)
		if a == nil || a.Terminal() || ledger.Away(tx.Node(c.NodeID)) {
			continue
		}
		j := tx.Job(a.Namespace, a.JobID)
		if j == nil {
			j = a.Job
		}
		if j == nil || seen[[2]string{j.Namespace, j.ID}] {
			continue
		}
		seen[[2]string{j.Namespace, j.ID}] = true
		evaluate(tx, j, "deprived", api.TriggerAllocStop)
	}
}

// claims are those to release that are there.
func (c *Evict) claims(tx *state.Txn) (list []*api.VolumeClaim) {
	for i, alloc := range c.AllocIDs {
		for held := range tx.ClaimsByAlloc(alloc) {
			switch {
			case held.Namespace != c.Namespace || held.VolumeID != c.VolumeID || held.NodeID != c.NodeID:
			case i < len(c.Uses) && c.Uses[i] != held.Use:
			case held.State == api.ClaimUnmounted || c.Lost && held.State != api.ClaimReleasing:
			default:
				list = append(list, held)
			}
		}
	}
	return list
}

// Apply records the driver's reply.
func (c *Attached) Apply(tx *state.Txn) (any, error) {
	tx.NoteCall(time.Duration(c.Took), c.Reason)
	i := ledger.Intent{PluginID: c.PluginID, ExternalID: c.ExternalID, NodeID: c.NodeID, Fence: c.Fence}
	switch {
	case c.Prepare:
		return nil, ledger.Prepare(tx, i)
	case c.Reason != "":
		if c.LimitExpiry != 0 {
			ledger.LearnLimit(tx, c.PluginID, c.ExternalID, c.NodeID, c.LimitExpiry)
		}
		if c.Refused != 0 {
			return nil, ledger.PublishRefused(tx, i, c.Reason, c.Refused, c.Attempts)
		}
		return nil, ledger.CallFailed(tx, i, c.Reason, c.NextRetry, c.Attempts)
	case c.NotCalled:
		return nil, ledger.PublishNeedless(tx, i)
	case c.Published:
		ledger.LiftLimit(tx, c.PluginID, c.NodeID)
		return nil, ledger.PublishDone(tx, i, c.PublishContext)
	}
	return nil, ledger.UnpublishDone(tx, i)
}

// Apply intends the detach.
func (c *UndoAttach) Apply(tx *state.Txn) (any, error) { return nil, ledger.Undo(tx, c.Row, c.Seen) }

// Apply lets all claims follow their allocations, and forgets what was learned of nodes long ago.
func (*Reconcile) Apply(tx *state.Txn) (any, error) {
	ledger.ExpireLimits(tx)
	return nil, ledger.Reconcile(tx, slices.Collect(tx.Claims()))
}

// Apply releases what waited for nodes.
func (c *EndHold) Apply(tx *state.Txn) (any, error) {
	if b := tx.Rollback(); b != nil && c.At != 0 && c.At != b.At {
		return nil, fault.New(fault.Conflict, "an older state was restored again in the meantime")
	}
	return nil, ledger.EndHold(tx)
}

// Apply ends an attachment, or stale mounts, by an operator override.
func (c *WriteOff) Apply(tx *state.Txn) (any, error) {
	w := ledger.Assertion{
		PluginID: c.PluginID, ExternalID: c.ExternalID, NodeID: c.NodeID, By: c.By, Reason: c.Reason, Seen: c.Seen, Since: c.Since,
	}
	held := slices.DeleteFunc(slices.Collect(tx.ClaimsByExternal(c.PluginID, c.ExternalID)), func(held *api.VolumeClaim) bool {
		return held.NodeID != c.NodeID || held.State != api.ClaimReady
	})
	waits := ledger.WaitsFor(tx, c.PluginID, c.ExternalID, c.NodeID)
	writeOff := ledger.WriteOff
	if c.StaleMounts {
		writeOff = ledger.WriteOffMounts
	}
	err := writeOff(tx, w)
	switch {
	case waits && errors.Is(err, fault.NotFound):
		err = nil
	case err == nil && !c.StaleMounts:
		deprived(tx, held)
	}
	if err == nil {
		ledger.ReleaseHeld(tx, c.PluginID, c.ExternalID, c.NodeID)
	}
	return nil, err
}
