package ledger

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Unclean reports whether allocations that have ended may still have volumes mounted on the node, by the node's
// reports, and its plugins are there to unmount them.
func Unclean(tx *state.Txn, n *api.Node) bool {
	able := func(plugin string) bool {
		i := n.CSINodePlugins[plugin]
		return i != nil && i.Healthy
	}
	if slices.ContainsFunc(n.StaleMounts, func(m *api.StaleMount) bool { return able(m.PluginID) }) {
		return true
	}
	for c := range tx.ClaimsByNode(n.ID) {
		if c.State == api.ClaimReleasing && able(c.PluginID) {
			return true
		}
	}
	return false
}

// staleNodes lists the nodes on which claims are about to use the volume while it may be mounted there for an evicted
// one.
func staleNodes(tx *state.Txn, claims []*api.VolumeClaim, plugin, external string) map[string]bool {
	var stale map[string]bool
	if !staleSomewhere(tx, plugin, external) {
		return nil
	}
	for _, c := range claims {
		if c.State != api.ClaimWaiting && c.State != api.ClaimTaken || stale[c.NodeID] {
			continue
		}
		if m, _ := StaleFor(tx, c); m != nil {
			stale = with(stale, c.NodeID)
		}
	}
	return stale
}

func staleSomewhere(tx *state.Txn, plugin, external string) bool {
	for range tx.NodesByStaleMount(plugin, external) {
		return true
	}
	return false
}

// StaleMount is what the node may still have mounted of an evicted claim; nil when there is none.
func StaleMount(tx *state.Txn, h Hold) *api.StaleMount {
	n := tx.Node(h.NodeID)
	if n == nil {
		return nil
	}
	if i := slices.IndexFunc(n.StaleMounts, h.stale); i >= 0 {
		return n.StaleMounts[i]
	}
	return nil
}

// stale reports whether a stale mount is what is left of the claim.
func (h Hold) stale(m *api.StaleMount) bool {
	return m.Namespace == h.Namespace && m.VolumeID == h.VolumeID && m.AllocID == h.AllocID && m.Use == h.Use
}

func holdOf(m *api.StaleMount, node string) Hold {
	return Hold{m.Namespace, m.VolumeID, m.AllocID, m.Use, node}
}

// givenUp records what the node of the claim may still have mounted. A node that is purged is not waited for. shared
// means that there is no proof, and that none is needed.
func givenUp(tx *state.Txn, c *api.VolumeClaim, shared bool) {
	old := tx.Node(c.NodeID)
	if old == nil {
		return
	}
	n := *old
	n.StaleMounts = append(slices.DeleteFunc(slices.Clone(old.StaleMounts), HoldOf(c).stale), &api.StaleMount{
		Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, Use: c.Use,
		PluginID: c.PluginID, ExternalID: c.ExternalID, ProviderNodeID: machineOf(tx, c), Since: tx.Now().UnixNano(),
		AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode, ReadOnly: c.Mode == api.ClaimRead, Lease: c.Lease, Shared: shared,
	})
	tx.PutNode(&n)
}

// Unclaimed lists the mounts that a node brings and that belong to no claim: the servers had forgotten the node, and
// no server asked it to unmount.
func Unclaimed(tx *state.Txn, n *api.Node) (stale []*api.StaleMount) {
	for _, m := range n.StaleMounts {
		if c := held(tx, n.ID, m); c == nil || c.State == api.ClaimUnmounted {
			stale = append(stale, unclaimed(tx, m))
		}
	}
	return stale
}

// Unexplained lists what a known node may have mounted: what was recorded before, and what it brings that is of no
// claim, and of none that is remembered. The servers may have been restored to an older snapshot.
func Unexplained(tx *state.Txn, n *api.Node, noted []*api.StaleMount) []*api.StaleMount {
	stale := slices.Clone(noted)
	known := make(map[Hold]bool, len(noted))
	for _, m := range noted {
		known[holdOf(m, n.ID)] = true
	}
	for _, m := range n.StaleMounts {
		if h := holdOf(m, n.ID); held(tx, n.ID, m) == nil && !known[h] && !ended(tx, n.ID, m) {
			stale = append(stale, unclaimed(tx, m))
			known[h] = true
		}
	}
	return stale
}

// held is the claim that explains a mount of the node; nil when there is none.
func held(tx *state.Txn, node string, m *api.StaleMount) *api.VolumeClaim {
	if c := tx.Claim(m.Namespace, m.VolumeID, m.AllocID, m.Use); c != nil && c.NodeID == node {
		return c
	}
	return nil
}

// ended reports whether the volume remembers that the allocation's claim ended: the node's report may have overtaken
// what it brings.
func ended(tx *state.Txn, node string, m *api.StaleMount) bool {
	v := tx.Volume(m.Namespace, m.VolumeID)
	return v != nil && slices.ContainsFunc(v.Releases, func(r *api.VolumeRelease) bool { return r.AllocID == m.AllocID && r.NodeID == node })
}

// unclaimed notes a mount. A node that could not read its record of it does not know what its driver calls the volume.
func unclaimed(tx *state.Txn, m *api.StaleMount) *api.StaleMount {
	next := *m
	next.Since, next.LastError = tx.Now().UnixNano(), ""
	if v := tx.Volume(m.Namespace, m.VolumeID); v != nil && m.ExternalID == "" && (m.PluginID == "" || m.PluginID == v.PluginID) {
		next.PluginID, next.ExternalID = v.PluginID, v.RemoteID()
	}
	return &next
}

// cleaned forgets those stale mounts of the node for which gone returns true, and settles their volumes.
func (r Rules) cleaned(tx *state.Txn, node string, gone func(*api.StaleMount) bool) (any bool) {
	old := tx.Node(node)
	if old == nil || !slices.ContainsFunc(old.StaleMounts, gone) {
		return false
	}
	n := *old
	n.StaleMounts = slices.DeleteFunc(slices.Clone(old.StaleMounts), gone)
	tx.PutNode(&n)
	for _, m := range old.StaleMounts {
		if gone(m) {
			r.settle(tx, m.PluginID, m.ExternalID)
		}
	}
	return true
}

// cleanFailed notes why a stale mount is still there, and reports whether there is one.
func cleanFailed(tx *state.Txn, h Hold, reason string) bool {
	old := StaleMount(tx, h)
	if old == nil || old.LastError == reason {
		return old != nil
	}
	n, m := *tx.Node(h.NodeID), *old
	m.LastError = reason
	n.StaleMounts = slices.Clone(n.StaleMounts)
	n.StaleMounts[slices.Index(n.StaleMounts, old)] = &m
	tx.PutNode(&n)
	return true
}
