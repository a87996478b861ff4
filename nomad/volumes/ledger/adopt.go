package ledger

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// Revive creates claims for mounts that nodes may still have of shared users that were evicted without a proof, when a
// new spec excludes such users.
func Revive(tx *state.Txn, v *api.Volume) {
	if !slices.ContainsFunc(v.RequestedCapabilities, func(c *api.VolumeCapability) bool { return claim.Exclusive(c.AccessMode, api.ClaimWrite) }) {
		return
	}
	shared := func(m *api.StaleMount) bool {
		return m.Shared && m.PluginID == v.PluginID && m.ExternalID == v.RemoteID()
	}
	var nodes []string
	for n := range tx.Nodes() {
		if slices.ContainsFunc(n.StaleMounts, shared) {
			nodes = append(nodes, n.ID)
		}
	}
	for _, id := range nodes {
		adopt(tx, id, shared, map[[2]string]bool{})
	}
	if len(nodes) > 0 {
		requeue(tx, v.PluginID, v.RemoteID())
	}
}

// adopt makes releasing claims of stale mounts of the node, so that they end as other claims do. The attachment below
// such a mount is not known: where there may be one the note stays with the claim, so that nothing is attached to the
// node again before the mount is removed.
func adopt(tx *state.Txn, node string, which func(*api.StaleMount) bool, touched map[[2]string]bool) {
	old := tx.Node(node)
	n := *old
	n.StaleMounts = nil
	for _, m := range old.StaleMounts {
		if !which(m) || m.PluginID == "" || m.ExternalID == "" || tx.Claim(m.Namespace, m.VolumeID, m.AllocID, m.Use) != nil {
			n.StaleMounts = append(n.StaleMounts, m)
			continue
		}
		c := claimOfMount(tx, node, m)
		if tx.PutClaim(c); c.Attach {
			n.StaleMounts = append(n.StaleMounts, m)
		}
		attachedNow(tx, c)
		touched[[2]string{m.PluginID, m.ExternalID}] = true
	}
	if len(n.StaleMounts) < len(old.StaleMounts) {
		tx.PutNode(&n)
	}
}

// attachedNow records that the volume of a mounted claim is attached, so that it is unmounted before it is detached.
func attachedNow(tx *state.Txn, c *api.VolumeClaim) {
	a := tx.Attachment(c.PluginID, c.ExternalID, c.NodeID)
	if !c.Attach || a != nil && a.State == api.AttachmentPublished {
		return
	}
	next := api.VolumeAttachment{
		PluginID: c.PluginID, ExternalID: c.ExternalID, NodeID: c.NodeID, AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode,
		MountOptions: c.MountOptions, Called: true,
	}
	if v := SpecOf(tx, c); v != nil {
		next.Context, next.Provider = v.DriverContext(), v.Provision.Provider
	}
	if a != nil {
		next = *a
		next.Called = !a.NotCalled
	}
	if controllers(tx, c.PluginID).Detach {
		next.ProviderNodeID = cmp.Or(next.ProviderNodeID, ProviderNode(tx, c.PluginID, c.NodeID))
	}
	next.State, next.Since, next.Fence = api.AttachmentPublished, tx.Now().UnixNano(), tx.Index()
	next.LastError, next.Refused, next.NextRetry, next.Attempts = "", 0, 0, 0
	tx.PutAttachment(&next)
}

// claimOfMount returns a claim on what a node has mounted. Unknown modes are those that exclude the most.
func claimOfMount(tx *state.Txn, node string, m *api.StaleMount) *api.VolumeClaim {
	v := specOf(tx, m.Namespace, m.VolumeID, m.PluginID, m.ExternalID)
	if v == nil {
		v = &api.Volume{VolumeSpec: api.VolumeSpec{ID: m.VolumeID, Namespace: m.Namespace, PluginID: m.PluginID, ExternalID: m.ExternalID}}
	}
	c := &api.VolumeClaim{
		Namespace: m.Namespace, VolumeID: m.VolumeID, AllocID: m.AllocID, Use: m.Use, NodeID: node,
		PluginID: m.PluginID, ExternalID: m.ExternalID, State: api.ClaimReleasing, Since: tx.Now().UnixNano(),
		AccessMode: cmp.Or(m.AccessMode, strictest(v)), AttachmentMode: m.AttachmentMode,
	}
	c.Mode = claim.ModeOf(m.ReadOnly, c.AccessMode)
	policed(tx, c, v)
	if a := tx.Alloc(m.AllocID); a != nil {
		c.JobID, c.TaskGroup = a.JobID, a.TaskGroup
	}
	if m.Shared { // the node has promised nothing with it
		return c
	}
	_ = guard(tx, v, c) // the mount exists, whatever its spec asks for
	c.Lease = max(c.Lease, m.Lease)
	return c
}

func strictest(v *api.Volume) api.AccessMode {
	for _, c := range v.RequestedCapabilities {
		if c.AccessMode.SingleNode() {
			return c.AccessMode
		}
	}
	for _, c := range v.RequestedCapabilities {
		return c.AccessMode
	}
	return api.AccessSingleNodeWriter
}
