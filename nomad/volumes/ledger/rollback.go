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
	"github.com/open-nomad/open-nomad/nomad/volumes/remedy"
)

// Unsure says why nobody can know yet who uses a volume: the servers went back to an older state, and not all nodes
// have told since what they have mounted. Empty when everybody has.
func Unsure(tx *state.Txn) string {
	r := tx.Rollback()
	if r == nil || r.Open {
		return ""
	}
	lost := slices.DeleteFunc(slices.Clone(r.Awaited), func(id string) bool { return !Lost(tx.Node(id)) })
	if len(lost) == 0 {
		return claim.Unsure
	}
	return fmt.Sprintf("%s; %d of them cannot be heard (%s): `%s` ends the wait for one that is gone for good",
		claim.Unsure, len(lost), strings.Join(lost[:min(len(lost), lostNamed)], ", "), remedy.PurgeNode(lost[0]))
}

// lostNamed is how many nodes that are waited for are named.
const lostNamed = 3

// Unasked ends the wait for a node that has told what it has mounted, or that an operator has purged: then it is gone
// for good, as in all else. It reports whether the node was asked.
func Unasked(tx *state.Txn, node string) bool {
	if !Untold(tx, node) {
		return false
	}
	next, is := *tx.Rollback(), func(id string) bool { return id == node }
	next.Untold = slices.DeleteFunc(slices.Clone(next.Untold), is)
	next.Awaited = slices.DeleteFunc(slices.Clone(next.Awaited), is)
	if tx.PutRollback(&next); next.Open {
		tx.PutRollback(unlessDone(&next))
	}
	return true
}

// Awaits reports whether a claim has to wait until that is known, or at least what its own node has mounted: what was
// granted to a node whose registration is on its way would be missing in that.
func Awaits(tx *state.Txn, c *api.VolumeClaim) bool {
	return Untold(tx, c.NodeID) || Unsure(tx) != "" && claim.Contested(c, slices.Collect(tx.VolumesByExternal(c.PluginID, c.ExternalID)))
}

// AttachAwaits reports whether an attach that is intended has to wait: for what its node has mounted, which it could
// give its path back; for what others have, whom its users exclude, or where the older state knows no user of it at all;
// and for the end of what is attached elsewhere. Claims see to the last as long as nobody goes back to an older state.
func AttachAwaits(tx *state.Txn, a *api.VolumeAttachment) bool {
	if Untold(tx, a.NodeID) {
		return true
	}
	if Elsewhere(tx, a) != nil {
		return true
	}
	used := false
	for c := range tx.ClaimsByExternal(a.PluginID, a.ExternalID) {
		if c.NodeID == a.NodeID && Awaits(tx, c) {
			return true
		}
		used = used || c.NodeID == a.NodeID
	}
	return !used && Unsure(tx) != ""
}

// Elsewhere is what another node has attached, where one of the two is for a single node; nil when there is none.
func Elsewhere(tx *state.Txn, a *api.VolumeAttachment) *api.VolumeAttachment {
	for o := range tx.AttachmentsOf(a.PluginID, a.ExternalID) {
		if o.NodeID != a.NodeID && (a.AccessMode.SingleNode() || o.AccessMode.SingleNode()) {
			return o
		}
	}
	return nil
}

// Untold reports whether the node has to register before anything else: the servers went back to an older state and
// do not know what it has mounted.
func Untold(tx *state.Txn, node string) bool {
	r := tx.Rollback()
	return r != nil && slices.Contains(r.Untold, node)
}

// Asks is the mark that the node's registration has to carry as a proof that it was built after the servers went back to
// an older state; 0 when none has to. One that was on its way then, or is repeated, does not know what the node got
// meanwhile. fresh is set for a node that neither state knew.
func Asks(tx *state.Txn, node string, fresh bool) int64 {
	r := tx.Rollback()
	if r == nil || !fresh && !slices.Contains(r.Untold, node) {
		return 0
	}
	return r.At
}

// Told takes what a node has mounted, of which the servers that went back to an older state know nothing. The node is
// right: what it has mounted is claimed, and what it has not mounted is claimed behind that. fresh is set for a node
// that neither state knew. Told reports whether the node was to tell.
func Told(tx *state.Txn, node string, mounts []*api.StaleMount, fresh bool) bool {
	old := tx.Rollback()
	if old == nil || !fresh && !slices.Contains(old.Untold, node) {
		return false
	}
	Unasked(tx, node)
	renew(tx, slices.Collect(tx.AttachmentsByNode(node)))
	touched := map[[2]string]bool{}
	for _, c := range slices.Collect(tx.ClaimsByNode(node)) {
		mounted := slices.ContainsFunc(mounts, Hold{c.Namespace, c.VolumeID, c.AllocID, c.Use, node}.stale)
		if believed(tx, c, mounted, old.Open) {
			touched[[2]string{c.PluginID, c.ExternalID}] = true
		}
	}
	adopt(tx, node, old.Open, func(m *api.StaleMount) bool { // what was noted before is in nobody's way but where nothing proves that
		return (m.Shared || m.Since == tx.Now().UnixNano()) && slices.ContainsFunc(mounts, Hold{m.Namespace, m.VolumeID, m.AllocID, m.Use, node}.stale)
	}, touched)
	for _, e := range slices.SortedFunc(maps.Keys(touched), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		requeue(tx, e[0], e[1])
	}
	return true
}

// believed corrects a claim by what its node says, and reports whether it did. A node that tells late finds that others
// may have got the volume: then it has to unmount.
func believed(tx *state.Txn, c *api.VolumeClaim, mounted, late bool) bool {
	next := *c
	switch {
	case mounted && (c.State == api.ClaimWaiting || c.State == api.ClaimTaken):
		next.State, next.Predecessor = api.ClaimReady, ""
		if late && contends(tx, c) {
			next.State = api.ClaimReleasing
			givenUp(tx, &next, false)
		}
	case mounted && c.State == api.ClaimUnmounted && !late:
		next.State, next.Presumed, next.Proof, next.By, next.Reason = api.ClaimReleasing, false, "", "", ""
	case !mounted && c.State == api.ClaimReady:
		next.State = api.ClaimWaiting
	}
	if mounted && next.State != api.ClaimUnmounted {
		attachedNow(tx, &next, late)
	}
	if next.State == c.State {
		return false
	}
	next.Since = tx.Now().UnixNano()
	tx.PutClaim(&next)
	return true
}

// attachedNow has the volume of a claim that is mounted be attached: it cannot be detached under the mount. What is
// being detached when its node tells late goes on: it was given up. Else that may have been done, and it is attached once
// more for who goes on using it; the next user of another one finds the note of what was given up.
func attachedNow(tx *state.Txn, c *api.VolumeClaim, late bool) {
	a := tx.Attachment(c.PluginID, c.ExternalID, c.NodeID)
	if !c.Attach || a != nil && (a.State == api.AttachmentPublished || late && a.State == api.AttachmentUnpublishing) {
		return
	}
	next := api.VolumeAttachment{
		PluginID: c.PluginID, ExternalID: c.ExternalID, NodeID: c.NodeID, AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode,
		MountOptions: c.MountOptions, Called: true,
	}
	if v := SpecOf(tx, c); v != nil {
		next.Context, next.Provider = v.DriverContext(), v.Provision.Provider // which is empty where servers of before are
	}
	state := api.AttachmentPublished
	if a != nil {
		next = *a
		next.Called = !a.NotCalled
		if a.State == api.AttachmentUnpublishing && c.State == api.ClaimReady && !a.NotCalled {
			state = api.AttachmentPublishing
		}
	}
	if controllers(tx, c.PluginID).Detach {
		next.ProviderNodeID = cmp.Or(next.ProviderNodeID, ProviderNode(tx, c.PluginID, c.NodeID))
	}
	next.State, next.Since, next.Fence = state, tx.Now().UnixNano(), tx.Index()
	next.LastError, next.Refused, next.NextRetry, next.Attempts = "", 0, 0, 0
	tx.PutAttachment(&next)
}

// adopt makes claims of the node's stale mounts, which its leaving ends as it ends others. Whether the volume is still
// attached below them is not known: where it may have been the notes stay with the claims, so that nobody else gets it
// there before the mounts are gone, and then it is attached anew.
func adopt(tx *state.Txn, node string, late bool, which func(*api.StaleMount) bool, touched map[[2]string]bool) {
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
		attachedNow(tx, c, late)
		touched[[2]string{m.PluginID, m.ExternalID}] = true
	}
	if len(n.StaleMounts) < len(old.StaleMounts) {
		tx.PutNode(&n)
	}
}

// claimOfMount is a claim on what a node has mounted. Modes that nobody knows are those that exclude the most.
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
	_ = guard(tx, v, c) // it is there, whatever its spec asks for
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

// requeue has all that is not mounted yet wait for what is.
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

// RollbackOver goes on with what waited for nodes to tell what they have mounted. Those that have not are asked when
// they are heard.
func RollbackOver(tx *state.Txn) error {
	old := tx.Rollback()
	if old == nil || old.Open {
		return fault.New(fault.Conflict, "nothing waits for nodes to tell their mounts")
	}
	next := *old
	next.Open, next.Awaited = true, nil
	next.Untold = slices.DeleteFunc(slices.Clone(old.Untold), func(id string) bool { return tx.Node(id) == nil })
	tx.PutRollback(unlessDone(&next))
	renew(tx, slices.Collect(tx.Attachments()))
	renew(tx, slices.Collect(tx.WrittenOff()))
	renewSnapshots(tx)
	renewVolumes(tx)
	for _, c := range slices.Collect(tx.Claims()) {
		queueAgain(tx, c)
	}
	if err := Reconcile(tx, slices.Collect(tx.Claims())); err != nil {
		return err
	}
	for _, a := range slices.Collect(tx.Attachments()) { // those of no claim are nobody's, also where an attach is under way
		if a.State != api.AttachmentUnpublishing && tx.Attachment(a.PluginID, a.ExternalID, a.NodeID) == a && !claimed(tx, a) {
			Standard().settle(tx, a.PluginID, a.ExternalID)
		}
	}
	return nil
}

// renewVolumes does the same for what is being made, deleted or expanded. Callers wait for the operation, which stays;
// what a call that is under way does is not known then.
func renewVolumes(tx *state.Txn) {
	for _, v := range slices.Collect(tx.Volumes(api.AllNamespaces)) {
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
}

// claimed reports whether anybody has a claim on the volume, wherever.
func claimed(tx *state.Txn, a *api.VolumeAttachment) bool {
	for range tx.ClaimsByExternal(a.PluginID, a.ExternalID) {
		return true
	}
	return false
}

func unlessDone(r *api.Rollback) *api.Rollback {
	if len(r.Untold) == 0 {
		return nil
	}
	return r
}

// Revive makes claims of what nodes may still have mounted for shared users that were given up without any proof:
// somebody excludes them from now on.
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
		adopt(tx, id, false, shared, map[[2]string]bool{})
	}
	if len(nodes) > 0 {
		requeue(tx, v.PluginID, v.RemoteID())
	}
}
