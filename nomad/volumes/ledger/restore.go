package ledger

import (
	"cmp"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// RollBack brings what a state says of nodes and providers into the older one that comes in its place, for those do not
// go back. What one of them may have is there when either state says so; what destroys something is intended when both
// do. Nothing is settled: that waits for what the nodes tell.
func RollBack(tx, was *state.Txn) {
	tx.PutRollback(asked(tx, was))
	endForgotten(tx, was)
	bringAttachments(tx, was)
	for c := range was.Claims() {
		bringClaim(tx, c)
	}
	for n := range was.Nodes() {
		bringNode(tx, was, n)
	}
	for _, v := range slices.Collect(tx.Volumes(api.AllNamespaces)) {
		switch {
		case v.Provision.State == api.VolumeDeleting || v.Provision.Replaces != nil:
			bringDeletion(tx, v, was.Volume(v.Namespace, v.ID))
		case v.Provision.State == api.VolumeCreating: // its driver may have been asked since
			next := *v
			next.Provision.Uncertain = true
			tx.PutVolume(&next)
		}
	}
	bringSnapshots(tx, was)
}

// asked are the nodes that have to tell what they have mounted: all that either state knows. Those that are down now
// are not waited for, as their claims are known.
func asked(tx, was *state.Txn) *api.Rollback {
	next := &api.Rollback{At: tx.Now().UnixNano()}
	awaited := map[string]bool{}
	for n := range tx.Nodes() {
		awaited[n.ID] = true
	}
	for n := range was.Nodes() {
		awaited[n.ID] = n.Status != api.NodeStatusDown
	}
	for c := range was.Claims() {
		if _, known := awaited[c.NodeID]; !known {
			awaited[c.NodeID] = false
		}
		next.Lease = max(next.Lease, c.Lease)
	}
	for v := range was.Volumes(api.AllNamespaces) {
		next.Lease = max(next.Lease, v.Lease)
	}
	for _, before := range []*api.Rollback{was.Rollback(), tx.Rollback()} { // either may be of the wait after another restore
		if before == nil {
			continue
		}
		for _, id := range before.Untold {
			awaited[id] = awaited[id] || slices.Contains(before.Awaited, id)
		}
		next.Lease = max(next.Lease, before.Lease)
	}
	next.Untold = slices.Sorted(maps.Keys(awaited))
	next.Awaited = slices.DeleteFunc(slices.Clone(next.Untold), func(id string) bool { return !awaited[id] })
	return next
}

// endForgotten ends the claims of nodes that the older state knows and the present one has forgotten: such a node was
// lost, and what it had was given up and detached. It may come back with the mounts, to which nothing is attached. The
// servers of a new cluster have forgotten nothing.
func endForgotten(tx, was *state.Txn) {
	if tx.ClusterID() != was.ClusterID() {
		return
	}
	for _, c := range slices.Collect(tx.Claims()) {
		guarded := c.Attach || claim.Contested(c, slices.Collect(tx.VolumesByExternal(c.PluginID, c.ExternalID)))
		if guarded && c.CreateIndex <= was.Index() && was.Node(c.NodeID) == nil && HoldOf(c).claim(was) == nil {
			tx.DeleteClaim(c.Namespace, c.VolumeID, c.AllocID, c.Use)
			givenUp(tx, c, false)
		}
	}
}

// bringNode takes over the node's secret, without which it could not tell, and notes of what it may have mounted for
// claims that were given up. Such a claim does not come back when it has ended in the present state: its node was cut
// off for good. That of a shared user does, for its node was not cut off from anything.
func bringNode(tx, was *state.Txn, n *api.Node) {
	old := tx.Node(n.ID)
	if old == nil {
		return
	}
	next := *old
	next.SecretID, next.StaleMounts = n.SecretID, slices.Clone(old.StaleMounts)
	for _, m := range n.StaleMounts {
		h := holdOf(m, n.ID)
		c := held(tx, n.ID, m)
		if c != nil && held(was, n.ID, m) == nil && !m.Shared {
			tx.DeleteClaim(c.Namespace, c.VolumeID, c.AllocID, c.Use)
			c = nil
		}
		if (c == nil || claim.Leaving(c.State)) && !slices.ContainsFunc(next.StaleMounts, h.stale) {
			next.StaleMounts = append(next.StaleMounts, m)
		}
	}
	if next.SecretID != old.SecretID || len(next.StaleMounts) > len(old.StaleMounts) {
		tx.PutNode(&next)
	}
}

// bringAttachments takes over all attachments. One that only the older state has may have ended since: it is attached
// once more where it is wanted, and else detached once more, also where it would give the path back to a mount whose
// claim was given up.
func bringAttachments(tx, was *state.Txn) {
	for _, a := range slices.Collect(tx.Attachments()) {
		next := *a
		if now := was.Attachment(a.PluginID, a.ExternalID, a.NodeID); now != nil {
			if !supersedes(a, now) {
				next = *now
			}
			next.ProviderNodeID = cmp.Or(next.ProviderNodeID, a.ProviderNodeID, now.ProviderNodeID)
		} else if !a.NotCalled {
			next.Called = true
			n := was.Node(a.NodeID)
			switch {
			case n != nil && claim.Stale(n, a.PluginID, a.ExternalID) != nil:
				next.State = api.AttachmentUnpublishing
			case a.State == api.AttachmentPublished:
				next.State = api.AttachmentPublishing
			}
		}
		tx.PutAttachment(withLeft(tx, was, &next))
	}
	for a := range was.Attachments() {
		if tx.Attachment(a.PluginID, a.ExternalID, a.NodeID) == nil {
			next := *a
			tx.PutAttachment(withLeft(tx, was, &next))
		}
	}
	for a := range was.WrittenOff() {
		if tx.Attachment(a.PluginID, a.ExternalID, a.NodeID) == nil {
			next := *a
			tx.PutAttachment(withLeft(tx, was, &next))
		}
	}
}

// supersedes reports whether the older state's row is the newer one all the same: somebody went back, and now forth.
func supersedes(a, now *api.VolumeAttachment) bool {
	return a.Fence > now.Fence || a.Fence == now.Fence && a.State == api.AttachmentPublished && now.State == api.AttachmentPublishing
}

// withLeft leaves to an attachment what detaching it needs and only the state before has.
func withLeft(tx, was *state.Txn, a *api.VolumeAttachment) *api.VolumeAttachment {
	if a.Called && (controllers(was, a.PluginID).Detach || controllers(tx, a.PluginID).Detach) {
		a.ProviderNodeID = cmp.Or(a.ProviderNodeID, ProviderNode(was, a.PluginID, a.NodeID), ProviderNode(tx, a.PluginID, a.NodeID))
	}
	for _, v := range Gather(was, a.PluginID, a.ExternalID).Specs {
		known := slices.ContainsFunc(Secrets(tx, a), func(s map[string]string) bool { return maps.Equal(s, v.Secrets) })
		if len(v.Secrets) > 0 && !known {
			a.Secrets = v.Secrets
		}
	}
	return a
}

// bringClaim takes over a claim whose node may have the volume mounted, or attached. Where both states have it, the one
// that says that more is there counts.
func bringClaim(tx *state.Txn, c *api.VolumeClaim) {
	old, next := HoldOf(c).claim(tx), *c
	switch {
	case c.State == api.ClaimWaiting || c.State == api.ClaimTaken: // its node was not told that it may
		if old == nil {
			return
		}
		next = *old
	case old != nil && there(old) >= there(c):
		next = *old
	case c.State == api.ClaimReady && Forgotten(tx, c):
		next.State, next.Since, next.LastError, next.NextRetry = api.ClaimReleasing, tx.Now().UnixNano(), "", 0
	}
	next.Lease, next.WriteBack, next.Attach = max(next.Lease, c.Lease), max(next.WriteBack, c.WriteBack), next.Attach || c.Attach
	tx.PutClaim(&next)
}

// there orders claims by what their nodes may have of them.
func there(c *api.VolumeClaim) int {
	switch {
	case c.State == api.ClaimReady, c.State == api.ClaimReleasing, c.Presumed:
		return 2
	case c.State == api.ClaimTaken:
		return 1
	}
	return 0
}

// bringDeletion goes on with a deletion that both states intend. Another one has ended since, and the volume may have
// been used after that.
func bringDeletion(tx *state.Txn, v, now *api.Volume) {
	next := *v
	p := &next.Provision
	switch {
	case now != nil && now.CreateIndex == v.CreateIndex && now.Provision.State == p.State && now.Provision.Operation() == p.Operation() &&
		(now.Provision.Replaces == nil) == (p.Replaces == nil):
		next.Provision = now.Provision
		tx.PutVolume(&next)
		return
	case p.Replaces != nil: // what it was to replace stays, and what it is to be is made, unless that was to be deleted too
		p.LastError = "what an earlier creation may have made is not deleted: the servers were restored to an older state"
		if p.Replaces, p.Uncertain = nil, true; p.State == api.VolumeDeleting {
			p.State, p.Uncertain, p.IntentSecrets = api.VolumeFailed, false, nil
		}
	default:
		p.LastError, p.IntentSecrets = "not deleted: the servers were restored to an older state", nil
		if p.State = api.VolumeAvailable; p.ExternalID == "" {
			p.State, p.Uncertain = api.VolumeFailed, true
		}
	}
	tx.PutVolume(&next)
}

// bringSnapshots goes on with what both states intend. What only the older one intends to cut may have been cut, and
// deleted, since: what is there already by its name is kept.
func bringSnapshots(tx, was *state.Txn) {
	for _, i := range slices.Collect(tx.SnapshotIntents()) {
		next, now := *i, was.SnapshotIntent(i.PluginID, i.Name, i.Delete)
		switch {
		case now != nil && now.Operation() == i.Operation() && now.Since == i.Since:
			next = *now
		case i.Delete || i.SnapshotID != "":
			tx.DeleteSnapshotIntent(i.PluginID, i.Name, i.Delete)
			continue
		default:
			next.Unwanted, next.Since = true, tx.Now().UnixNano()
		}
		tx.PutSnapshotIntent(&next)
	}
	for i := range was.SnapshotIntents() {
		cut := !i.Delete && !(i.Unwanted && i.SnapshotID != "")
		if cut && tx.SnapshotIntent(i.PluginID, i.Name, false) == nil {
			next := *i
			next.Began = i.Operation()
			tx.PutSnapshotIntent(&next)
		}
	}
}

// renew makes the intents of attachments the newest of all: the hosts of controllers may have seen newer ones, of the
// state before. Their drivers may have been called for them.
func renew(tx *state.Txn, attachments []*api.VolumeAttachment) {
	for _, a := range attachments {
		if a.State == api.AttachmentPublished {
			continue
		}
		next := *a
		next.Fence, next.Called = tx.Index(), !a.NotCalled && (a.Called || a.ProviderNodeID != "")
		tx.PutAttachment(&next)
	}
}

// renewSnapshots does the same for snapshots: those who wait for the answer know it by what it was asked for with.
func renewSnapshots(tx *state.Txn) {
	for _, i := range slices.Collect(tx.SnapshotIntents()) {
		next := *i
		next.Began = i.Operation()
		tx.DeleteSnapshotIntent(i.PluginID, i.Name, i.Delete)
		tx.PutSnapshotIntent(&next)
	}
}

// contends reports whether another node has what a claim excludes, or may have it.
func contends(tx *state.Txn, c *api.VolumeClaim) bool {
	if !claim.Contested(c, slices.Collect(tx.VolumesByExternal(c.PluginID, c.ExternalID))) {
		return false
	}
	for o := range tx.ClaimsByExternal(c.PluginID, c.ExternalID) {
		if o.NodeID != c.NodeID && there(o) == 2 {
			return true
		}
	}
	return false
}
