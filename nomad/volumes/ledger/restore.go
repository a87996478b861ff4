package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
)

// MayRestore refuses the restore of an older state while external volumes are attached or claimed.
func MayRestore(tx *state.Txn) error {
	used, first := map[[2]string]bool{}, ""
	count := func(plugin, external, node string) {
		if used[[2]string{plugin, external}] = true; first == "" {
			first = fmt.Sprintf("%s of CSI plugin %s on node %s", external, plugin, node)
		}
	}
	for a := range tx.Attachments() {
		count(a.PluginID, a.ExternalID, a.NodeID)
	}
	for c := range tx.Claims() {
		if c.State != api.ClaimWaiting {
			count(c.PluginID, c.ExternalID, c.NodeID)
		}
	}
	if len(used) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "%d external volumes are attached, the first is %s: stop the jobs that use them and restore when they are detached, "+
		"or restore with -force (force=true), after which volumes wait until every node has reported its mounts", len(used), first)
}

// RollBack prepares an older state for taking the place of the present one. Nodes and providers do not go back: volumes
// wait until all nodes have reported their mounts, attachments of both states are kept, and only deletions that both
// states contain continue.
func RollBack(tx, was *state.Txn) {
	tx.PutRollback(&api.Rollback{At: tx.Now().UnixNano(), Unreported: unreported(tx, was)})
	keepAttachments(tx, was)
	for _, v := range slices.Collect(tx.Volumes(api.AllNamespaces)) {
		if v.Provision.State == api.VolumeDeleting || v.Provision.Replaces != nil {
			endDeletion(tx, v, was.Volume(v.Namespace, v.ID))
		}
	}
	for _, i := range slices.Collect(tx.SnapshotIntents()) { // no caller waits for them
		tx.DeleteSnapshotIntent(i.PluginID, i.Name, i.Delete)
	}
}

// unreported lists the nodes of both states, but those that are down or purged and had nothing in either.
func unreported(tx, was *state.Txn) []string {
	nodes := map[string]bool{}
	for _, s := range []*state.Txn{tx, was} {
		for n := range s.Nodes() {
			nodes[n.ID] = nodes[n.ID] || len(n.StaleMounts) > 0
		}
		for c := range s.Claims() {
			nodes[c.NodeID] = true
		}
		for a := range s.Attachments() {
			nodes[a.NodeID] = true
		}
		if r := s.Rollback(); r != nil {
			for _, id := range r.Unreported {
				nodes[id] = true
			}
		}
	}
	maps.DeleteFunc(nodes, func(id string, uses bool) bool {
		return !uses && sameCluster(tx, was) && Lost(was.Node(id))
	})
	return slices.Sorted(maps.Keys(nodes))
}

// sameCluster reports whether the present state is a later one of the same servers. A new cluster knows no attachments.
func sameCluster(tx, was *state.Txn) bool {
	return tx.ClusterID() != "" && tx.ClusterID() == was.ClusterID()
}

// keepAttachments keeps the attachments of both states; of two rows the one with the newer intent. One that the present
// state does not contain was detached: it has to be attached again before anything is mounted on it.
func keepAttachments(tx, was *state.Txn) {
	row := func(s *state.Txn, a *api.VolumeAttachment) *api.VolumeAttachment { return IntentOf(a).row(s) }
	for _, a := range slices.Collect(tx.Attachments()) {
		if sameCluster(tx, was) && row(was, a) == nil {
			attachAgain(tx, a)
		}
	}
	for _, a := range slices.AppendSeq(slices.Collect(was.Attachments()), was.WrittenOff()) {
		next, old := *a, row(tx, a)
		if old != nil && old.Fence > a.Fence {
			continue
		}
		if old != nil {
			next.ProviderNodeID = cmp.Or(next.ProviderNodeID, old.ProviderNodeID)
		}
		if len(Gather(tx, a.PluginID, a.ExternalID).Specs) == 0 {
			for _, v := range Gather(was, a.PluginID, a.ExternalID).Specs {
				next.Secrets = v.Secrets
			}
		}
		tx.PutAttachment(&next)
	}
}

// attachAgain has the driver asked to attach a volume again, or to detach it where no claim needs it.
func attachAgain(tx *state.Txn, a *api.VolumeAttachment) {
	if a.State != api.AttachmentPublished || a.NotCalled {
		return
	}
	next := *a
	next.State, next.Called = api.AttachmentPublishing, true
	tx.PutAttachment(&next)
}

// endDeletion ends a deletion that the present state does not contain: the volume may have been used since.
func endDeletion(tx *state.Txn, v, now *api.Volume) {
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
		p.LastError, p.IntentSecrets = "not deleted: the servers were restored to an older state; delete it again", nil
		if p.State = api.VolumeAvailable; p.ExternalID == "" {
			p.State, p.Uncertain = api.VolumeFailed, true
		}
	}
	tx.PutVolume(&next)
}

// nodesNamed is how many nodes an error names.
const nodesNamed = 3

// Held returns why an external volume waits since a restore, and what ends the wait; "" when it does not wait.
func Held(tx *state.Txn, plugin, external string) string {
	r := tx.Rollback()
	if r == nil {
		return ""
	}
	waits := slices.DeleteFunc(slices.Clone(r.Unreported), func(id string) bool { return released(r, plugin, external, id) })
	switch {
	case len(waits) > 0:
		return fmt.Sprintf("%s; %d have not, the first are %s: `%s` releases this volume, `%s` forgets a node that does not return", claim.Held, len(waits),
			strings.Join(waits[:min(len(waits), nodesNamed)], ", "), commandtext.DetachExternal(plugin, external, waits[0]), commandtext.PurgeNode(waits[0]))
	case slices.ContainsFunc(r.Released, func(v *api.ReleasedVolume) bool { return v.PluginID == plugin && v.ExternalID == external }):
		return ""
	}
	return claim.Held
}

func released(r *api.Rollback, plugin, external, node string) bool {
	return slices.ContainsFunc(r.Released, func(v *api.ReleasedVolume) bool {
		return *v == api.ReleasedVolume{PluginID: plugin, ExternalID: external, NodeID: node}
	})
}

// WaitsFor reports whether an external volume waits for the report of a node.
func WaitsFor(tx *state.Txn, plugin, external, node string) bool {
	return Unreported(tx, node) && !released(tx.Rollback(), plugin, external, node)
}

// ReleaseHeld ends the wait of an external volume for the report of a node, by an operator's override.
func ReleaseHeld(tx *state.Txn, plugin, external, node string) {
	if !WaitsFor(tx, plugin, external, node) {
		return
	}
	next := *tx.Rollback()
	next.Released = append(slices.Clone(next.Released), &api.ReleasedVolume{PluginID: plugin, ExternalID: external, NodeID: node})
	if tx.PutRollback(&next); Held(tx, plugin, external) != "" {
		return
	}
	e := Gather(tx, plugin, external)
	renew(tx, e.Attachments)
	renew(tx, e.WrittenOff)
	for _, v := range e.Specs {
		renewOperation(tx, v)
	}
	requeue(tx, plugin, external)
}

// Unreported reports whether the node has to register, with its mounts, before anything is taken from it.
func Unreported(tx *state.Txn, node string) bool {
	r := tx.Rollback()
	return r != nil && slices.Contains(r.Unreported, node)
}

// Forgo ends the wait for the report of a node. It returns whether there was one.
func Forgo(tx *state.Txn, node string) bool {
	if !Unreported(tx, node) {
		return false
	}
	next := *tx.Rollback()
	next.Unreported = slices.DeleteFunc(slices.Clone(next.Unreported), func(id string) bool { return id == node })
	tx.PutRollback(&next)
	return true
}

// ClaimHeld reports whether a claim waits since a restore: for the report of its own node, or of any node where it
// excludes other users.
func ClaimHeld(tx *state.Txn, c *api.VolumeClaim) bool {
	return Unreported(tx, c.NodeID) ||
		Held(tx, c.PluginID, c.ExternalID) != "" && claim.Contested(c, slices.Collect(tx.VolumesByExternal(c.PluginID, c.ExternalID)))
}

// AttachHeld reports whether an attach waits since a restore: for the reports of nodes, as its claims do, or for the end
// of an attachment to another node.
func AttachHeld(tx *state.Txn, a *api.VolumeAttachment) bool {
	if Unreported(tx, a.NodeID) || Elsewhere(tx, a) != nil {
		return true
	}
	used := false
	for c := range tx.ClaimsByExternal(a.PluginID, a.ExternalID) {
		if c.NodeID == a.NodeID && ClaimHeld(tx, c) {
			return true
		}
		used = used || c.NodeID == a.NodeID
	}
	return !used && Held(tx, a.PluginID, a.ExternalID) != ""
}

// Elsewhere returns an attachment to another node, where one of the two is for a single node; nil when there is none.
func Elsewhere(tx *state.Txn, a *api.VolumeAttachment) *api.VolumeAttachment {
	for o := range tx.AttachmentsOf(a.PluginID, a.ExternalID) {
		if o.NodeID != a.NodeID && (a.AccessMode.SingleNode() || o.AccessMode.SingleNode()) {
			return o
		}
	}
	return nil
}

// Mark returns the mark of the restore that the node's registration has to carry, since one that was built before does
// not contain what was mounted meanwhile; 0 when none is needed. fresh is set for a node that the state does not contain.
func Mark(tx *state.Txn, node string, fresh bool) int64 {
	if fresh && tx.Rollback() != nil || Unreported(tx, node) {
		return tx.Rollback().At
	}
	return 0
}

// Reported corrects the restored state by the mounts that a node reports, and returns whether it had to report. A mount
// that no ready claim with its attachment explains is unmounted, and a claim without its mount waits again.
func Reported(tx *state.Txn, node string, mounts []*api.StaleMount, fresh bool) bool {
	if Mark(tx, node, fresh) == 0 {
		return false
	}
	Forgo(tx, node)
	renew(tx, slices.Collect(tx.AttachmentsByNode(node)))
	mounted, touched := map[[2]string]bool{}, map[[2]string]bool{}
	for _, m := range mounts {
		mounted[[2]string{m.PluginID, m.ExternalID}] = true
	}
	for _, c := range slices.Collect(tx.ClaimsByNode(node)) {
		var m *api.StaleMount
		if i := slices.IndexFunc(mounts, Hold{c.Namespace, c.VolumeID, c.AllocID, c.Use, node}.stale); i >= 0 {
			m = mounts[i]
		}
		e := [2]string{c.PluginID, c.ExternalID}
		mounted[e], touched[e] = mounted[e] || m != nil, true
		correct(tx, c, m)
	}
	adopt(tx, node, func(m *api.StaleMount) bool { // previous records block no use except where they have no proof
		return (m.Shared || m.Since == tx.Now().UnixNano()) && slices.ContainsFunc(mounts, Hold{m.Namespace, m.VolumeID, m.AllocID, m.Use, node}.stale)
	}, touched)
	for _, a := range slices.Collect(tx.AttachmentsByNode(node)) {
		if !mounted[[2]string{a.PluginID, a.ExternalID}] {
			attachAgain(tx, a)
		}
	}
	for _, e := range slices.SortedFunc(maps.Keys(touched), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		requeue(tx, e[0], e[1])
	}
	return true
}

// correct brings a claim in line with the mount that its node reports for it; nil when there is none.
func correct(tx *state.Txn, c *api.VolumeClaim, m *api.StaleMount) {
	next, mounted := *c, m != nil
	a := tx.Attachment(c.PluginID, c.ExternalID, c.NodeID)
	sound := c.State == api.ClaimReady && (!c.Attach || a != nil && a.State == api.AttachmentPublished)
	switch {
	case mounted && c.State == api.ClaimReleasing:
	case mounted && !sound && c.State != api.ClaimUnmounted: // the note has the scheduler stop its allocation
		next.State, next.Predecessor = api.ClaimReleasing, ""
		givenUp(tx, &next, false)
	case !mounted && c.State == api.ClaimReady:
		next.State = api.ClaimWaiting
	}
	if mounted && next.State == api.ClaimReleasing {
		attachedNow(tx, &next)
	}
	if mounted {
		next.Lease = max(next.Lease, m.Lease)
	}
	if next.State != c.State {
		next.Since = tx.Now().UnixNano()
	}
	if next.State != c.State || next.Lease != c.Lease {
		tx.PutClaim(&next)
	}
}

// EndHold ends the wait after a restore, when all nodes have reported.
func EndHold(tx *state.Txn) error {
	r := tx.Rollback()
	if r == nil || len(r.Unreported) > 0 {
		return fault.New(fault.Conflict, "no restore waits for its end: nodes have not reported their mounts, or it has ended")
	}
	tx.PutRollback(nil)
	renew(tx, slices.Collect(tx.Attachments()))
	renew(tx, slices.Collect(tx.WrittenOff()))
	for _, v := range slices.Collect(tx.Volumes(api.AllNamespaces)) {
		renewOperation(tx, v)
	}
	for _, c := range slices.Collect(tx.Claims()) {
		queueAgain(tx, c)
	}
	if err := Reconcile(tx, slices.Collect(tx.Claims())); err != nil {
		return err
	}
	for _, a := range slices.Collect(tx.Attachments()) { // an attachment without a claim is detached
		if a.State != api.AttachmentUnpublishing && tx.Attachment(a.PluginID, a.ExternalID, a.NodeID) == a && !claimed(tx, a) {
			Standard().settle(tx, a.PluginID, a.ExternalID)
		}
	}
	return nil
}

// claimed reports whether the volume has a claim on any node.
func claimed(tx *state.Txn, a *api.VolumeAttachment) bool {
	for range tx.ClaimsByExternal(a.PluginID, a.ExternalID) {
		return true
	}
	return false
}

// renew makes the intents of attachments newer than those that the hosts of controllers received before the restore.
// Their drivers may have been called for them.
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

// renewOperation does the same for a creation, deletion or expansion. Its driver may have been called since.
func renewOperation(tx *state.Txn, v *api.Volume) {
	//exhaustive:enforce
	switch v.Provision.State {
	case api.VolumeAvailable, api.VolumeFailed:
	case api.VolumeCreating, api.VolumeDeleting, api.VolumeExpanding:
		next := *v
		p := &next.Provision
		p.Began, p.Intent, p.Uncertain = p.Operation(), tx.Index(), p.Uncertain || p.State != api.VolumeExpanding
		tx.PutVolume(&next)
	}
}

// requeue has claims that are not mounted wait for those that are.
func requeue(tx *state.Txn, plugin, external string) {
	for _, c := range slices.Collect(tx.ClaimsByExternal(plugin, external)) {
		queueAgain(tx, c)
	}
	Standard().settle(tx, plugin, external)
}

func queueAgain(tx *state.Txn, c *api.VolumeClaim) {
	if c.State == api.ClaimTaken {
		next := *c
		next.State = api.ClaimWaiting
		tx.PutClaim(&next)
	}
}
