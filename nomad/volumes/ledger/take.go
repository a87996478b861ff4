package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// Check reports whether Take would succeed: fault.NotFound for a missing volume, fault.Conflict with
// who holds it otherwise. stopping holds the allocations that the same plan stops.
func Check(tx *state.Txn, alloc *api.Allocation, stopping map[string]bool) error {
	return Standard().Check(tx, alloc, stopping)
}

// Take writes the claims of all CSI volumes of the allocation's group: taken, or waiting behind a
// predecessor that is on its way out.
func Take(tx *state.Txn, alloc *api.Allocation, stopping map[string]bool) error {
	return Standard().Take(tx, alloc, stopping)
}

// Check is [Check] by these rules.
func (r Rules) Check(tx *state.Txn, alloc *api.Allocation, stopping map[string]bool) error {
	for _, ask := range claim.Asks(alloc) {
		if _, _, err := r.judge(tx, ask, stopping); err != nil {
			return err
		}
	}
	return nil
}

// Take is [Take] by these rules.
func (r Rules) Take(tx *state.Txn, alloc *api.Allocation, stopping map[string]bool) error {
	for _, ask := range claim.Asks(alloc) {
		v, answer, err := r.judge(tx, ask, stopping)
		if err != nil {
			return err
		}
		if tx.Claim(v.Namespace, v.ID, alloc.ID) != nil {
			continue
		}
		c := claimOf(tx, v, ask)
		if answer.Verdict == claim.Waits {
			c.State, c.Predecessor = api.ClaimWaiting, answer.Predecessor
		}
		tx.PutClaim(c)
		r.settle(tx, c.PluginID, c.ExternalID)
	}
	return nil
}

func (r Rules) judge(tx *state.Txn, ask claim.Ask, stopping map[string]bool) (*api.Volume, claim.Answer, error) {
	v := tx.Volume(ask.Namespace, ask.VolumeID)
	if v == nil {
		return nil, claim.Answer{}, fault.New(fault.NotFound, "volume %q in namespace %q does not exist", ask.VolumeID, ask.Namespace)
	}
	held := slices.Collect(tx.ClaimsByExternal(v.PluginID, v.RemoteID()))
	answer := r.Fits(v, held, ask.Request, stopping)
	if answer.Verdict == claim.Refused {
		return nil, answer, fault.New(fault.Conflict, "%s", answer.Reason)
	}
	if n := tx.Node(ask.NodeID); n != nil {
		if m := claim.Stale(n, v.PluginID, v.RemoteID()); m != nil {
			return nil, answer, fault.New(fault.Conflict, "%s", claim.NotYet(v.ID, n.ID, m))
		}
	}
	if ProviderNode(tx, v.PluginID, ask.NodeID) == "" && Attaches(tx, v.PluginID) {
		return nil, answer, fault.New(fault.Conflict,
			"node %s does not report CSI plugin %q, which volume %q needs", ask.NodeID, v.PluginID, v.ID)
	}
	return v, answer, nil
}

// claimOf records everything that releasing the claim needs.
func claimOf(tx *state.Txn, v *api.Volume, ask claim.Ask) *api.VolumeClaim {
	r, _ := claim.Capable(v, ask.Request)
	c := &api.VolumeClaim{
		Namespace: v.Namespace, VolumeID: v.ID, AllocID: r.AllocID, NodeID: r.NodeID, JobID: r.JobID,
		TaskGroup: r.TaskGroup, PluginID: v.PluginID, ExternalID: v.RemoteID(),
		Mode: claim.ModeOf(r.ReadOnly, r.AccessMode), AccessMode: r.AccessMode, AttachmentMode: r.AttachmentMode,
		MountOptions: merge(v.MountOptions, ask.MountOptions), Attach: Attaches(tx, v.PluginID),
		State: api.ClaimTaken, Since: tx.Now().UnixNano(),
	}
	if claim.Exclusive(c.AccessMode, c.Mode) && !fences(tx, v.PluginID) {
		c.Lease = cmp.Or(v.Lease, LeaseDefault)
	}
	return c
}

// LeaseDefault is for how long a node may use an exclusive volume that its storage cannot take away.
const LeaseDefault = 5 * time.Minute

// merge lets the request's mount options replace the volume's, field by field.
func merge(volume, request *api.MountOptions) *api.MountOptions {
	switch {
	case request == nil:
		return volume
	case volume == nil:
		return request
	}
	merged := *request
	if merged.FSType == "" {
		merged.FSType = volume.FSType
	}
	if len(merged.MountFlags) == 0 {
		merged.MountFlags = volume.MountFlags
	}
	return &merged
}

func describe(ns, volume, alloc string) string {
	return fmt.Sprintf("claim of allocation %s on volume %q in namespace %q", alloc, volume, ns)
}
