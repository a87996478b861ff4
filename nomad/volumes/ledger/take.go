package ledger

import (
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

// Beside is [Check] with the claims that the plan takes for other allocations first, and returns those of this one.
func Beside(tx *state.Txn, alloc *api.Allocation, stopping map[string]bool, others []*api.VolumeClaim) ([]*api.VolumeClaim, error) {
	return Standard().claims(tx, alloc, stopping, others)
}

// Take writes the claims of all uses of CSI volumes by the allocation's group, or none: taken, or waiting behind a
// predecessor that is on its way out.
func Take(tx *state.Txn, alloc *api.Allocation, stopping map[string]bool) error {
	return Standard().Take(tx, alloc, stopping)
}

// Check is [Check] by these rules.
func (r Rules) Check(tx *state.Txn, alloc *api.Allocation, stopping map[string]bool) error {
	_, err := r.claims(tx, alloc, stopping, nil)
	return err
}

// Take is [Take] by these rules.
func (r Rules) Take(tx *state.Txn, alloc *api.Allocation, stopping map[string]bool) error {
	claims, err := r.claims(tx, alloc, stopping, nil)
	if err != nil {
		return err
	}
	for _, c := range claims {
		tx.PutClaim(c)
	}
	for _, c := range claims {
		r.settle(tx, c.PluginID, c.ExternalID)
	}
	return nil
}

// claims checks all uses, together with the claims of others, before any of them is written. Existing claims are left
// out.
func (r Rules) claims(tx *state.Txn, alloc *api.Allocation, stopping map[string]bool, others []*api.VolumeClaim) (claims []*api.VolumeClaim, err error) {
	uses := alloc.VolumeUses()
	all := slices.Clip(others)
	for i, u := range uses {
		for _, other := range uses[:i] {
			if why := other.Contradicts(u); why != "" {
				return nil, fault.New(fault.Conflict, "%s", why)
			}
		}
		c, err := r.judge(tx, alloc, u, all, stopping)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
		if HoldOf(c).claim(tx) == nil {
			claims = append(claims, c)
		}
	}
	return claims, nil
}

// judge creates the claim of one use, together with those that are taken with it.
func (r Rules) judge(tx *state.Txn, alloc *api.Allocation, u *api.VolumeUse, beside []*api.VolumeClaim, stopping map[string]bool) (*api.VolumeClaim, error) {
	v := tx.Volume(alloc.Namespace, u.VolumeID)
	if v == nil {
		return nil, fault.New(fault.NotFound, "volume %q in namespace %q does not exist", u.VolumeID, alloc.Namespace)
	}
	ask := claim.RequestFor(v, u, alloc)
	book := Read(tx, v.PluginID, v.RemoteID())
	for _, c := range beside {
		if c.AllocID == alloc.ID {
			if why := claim.Apart(ask, claim.RequestOf(c)); why != "" {
				return nil, fault.New(fault.Conflict, "%s", why)
			}
		}
		if c.PluginID == v.PluginID && c.ExternalID == v.RemoteID() {
			book.Claims = append(book.Claims, c)
		}
	}
	answer := r.Fits(v, book, ask, stopping)
	if answer.Verdict == claim.Refused {
		return nil, fault.New(fault.Conflict, "%s", answer.Reason)
	}
	if reason := onNode(tx, v, ask.NodeID, beside); reason != "" {
		return nil, fault.New(fault.Conflict, "%s", reason)
	}
	c, err := claimOf(tx, v, ask)
	if err != nil {
		return nil, err
	}
	if c.Attach && ProviderNode(tx, v.PluginID, ask.NodeID) == "" {
		return nil, fault.New(fault.Conflict, "node %s does not report CSI plugin %q, which volume %q needs", ask.NodeID, v.PluginID, v.ID)
	}
	if answer.Verdict == claim.Waits {
		c.State, c.Predecessor = api.ClaimWaiting, answer.Predecessor
	}
	return c, nil
}

// onNode returns why the node cannot serve the volume in addition to what it has and the claims that are taken with
// it. The scheduler has checked the same, on its snapshot: two plans may have filled the node.
func onNode(tx *state.Txn, v *api.Volume, node string, beside []*api.VolumeClaim) string {
	n := tx.Node(node)
	if n == nil {
		return fmt.Sprintf("node %s does not exist", node)
	}
	if reason := claim.Unserved(n, v.PluginID); reason != "" {
		return reason
	}
	if m := claim.Stale(n, v.PluginID, v.RemoteID()); m != nil {
		return claim.NotYet(v.Namespace, v.ID, n.ID, m)
	}
	here := volumesOn(tx, v.PluginID, node, slices.Concat(slices.Collect(tx.ClaimsByNode(node)), beside))
	if here[v.RemoteID()] {
		return ""
	}
	return claim.Full(n, v.PluginID, int64(len(here)))
}

// VolumesOn returns the ids of the external volumes of the plugin that are claimed or attached on the node.
func VolumesOn(tx *state.Txn, plugin, node string) map[string]bool {
	return volumesOn(tx, plugin, node, slices.Collect(tx.ClaimsByNode(node)))
}

// volumesOn are the external volumes of the plugin that the claims have, or that are attached, on the node.
func volumesOn(tx *state.Txn, plugin, node string, claims []*api.VolumeClaim) map[string]bool {
	here := map[string]bool{}
	for _, c := range claims {
		if c.PluginID == plugin && c.NodeID == node {
			here[c.ExternalID] = true
		}
	}
	for a := range tx.AttachmentsByNode(node) {
		if a.PluginID == plugin {
			here[a.ExternalID] = true
		}
	}
	return here
}

// claimOf records everything that releasing the claim needs.
func claimOf(tx *state.Txn, v *api.Volume, r claim.Request) (*api.VolumeClaim, error) {
	c := &api.VolumeClaim{
		Namespace: v.Namespace, VolumeID: v.ID, AllocID: r.AllocID, Use: r.Use, NodeID: r.NodeID, JobID: r.JobID,
		TaskGroup: r.TaskGroup, PluginID: v.PluginID, ExternalID: v.RemoteID(),
		Mode: claim.ModeOf(r.ReadOnly, r.AccessMode), AccessMode: r.AccessMode, AttachmentMode: r.AttachmentMode,
		MountOptions: r.MountOptions, State: api.ClaimTaken, Since: tx.Now().UnixNano(),
	}
	policed(tx, c, v)
	return c, guard(tx, v, c)
}

// LeaseDefault is for how long a node may use an exclusive volume that its storage cannot take away.
const LeaseDefault = 5 * time.Minute
