package ledger

import (
	"cmp"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// Unsure says why nobody can know yet who uses a volume: the servers went back to an older state, and not all nodes
// have told since what they have mounted. Empty when everybody has.
func Unsure(tx *state.Txn) string {
	if r := tx.Rollback(); r != nil && !r.Open {
		return claim.Unsure
	}
	return ""
}

// Awaits reports whether a claim has to wait until that is known.
func Awaits(tx *state.Txn, c *api.VolumeClaim) bool {
	return Unsure(tx) != "" && claim.Contested(c, slices.Collect(tx.VolumesByExternal(c.PluginID, c.ExternalID)))
}

// Untold reports whether the node has to register before anything else: the servers went back to an older state and
// do not know what it has mounted.
func Untold(tx *state.Txn, node string) bool {
	r := tx.Rollback()
	return r != nil && slices.Contains(r.Untold, node)
}

// Told takes what a node has mounted, of which the servers that went back to an older state know nothing. The node is
// right: what it has mounted is claimed, and what it has not mounted is claimed behind that. fresh is set for a node
// that neither state knew.
func Told(tx *state.Txn, node string, mounts []*api.StaleMount, fresh bool) {
	old := tx.Rollback()
	if old == nil || !fresh && !slices.Contains(old.Untold, node) {
		return
	}
	next, is := *old, func(id string) bool { return id == node }
	next.Untold = slices.DeleteFunc(slices.Clone(old.Untold), is)
	next.Awaited = slices.DeleteFunc(slices.Clone(old.Awaited), is)
	tx.PutRollback(&next)
	if next.Open {
		tx.PutRollback(unlessDone(&next))
		return
	}
	touched := map[[2]string]bool{}
	for _, c := range slices.Collect(tx.ClaimsByNode(node)) {
		mounted := slices.ContainsFunc(mounts, Hold{c.Namespace, c.VolumeID, c.AllocID, c.Use, node}.stale)
		if believed(tx, c, mounted) {
			touched[[2]string{c.PluginID, c.ExternalID}] = true
		}
	}
	adopt(tx, node, func(m *api.StaleMount) bool {
		return slices.ContainsFunc(mounts, Hold{m.Namespace, m.VolumeID, m.AllocID, m.Use, node}.stale)
	}, touched)
	for _, e := range slices.SortedFunc(maps.Keys(touched), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		requeue(tx, e[0], e[1])
	}
}

// believed corrects a claim by what its node says, and reports whether it did.
func believed(tx *state.Txn, c *api.VolumeClaim, mounted bool) bool {
	next := *c
	switch {
	case mounted && (c.State == api.ClaimWaiting || c.State == api.ClaimTaken):
		next.State, next.Predecessor = api.ClaimReady, ""
		attachedNow(tx, c)
	case mounted && (c.State == api.ClaimReady || c.State == api.ClaimReleasing):
		attachedNow(tx, c)
		return false
	case !mounted && c.State == api.ClaimReady:
		next.State = api.ClaimWaiting
	default:
		return false
	}
	next.Since = tx.Now().UnixNano()
	tx.PutClaim(&next)
	return true
}

// attachedNow has the volume of a claim that is mounted be attached: it cannot be detached under the mount.
func attachedNow(tx *state.Txn, c *api.VolumeClaim) {
	a := tx.Attachment(c.PluginID, c.ExternalID, c.NodeID)
	if !c.Attach || a != nil && a.State == api.AttachmentPublished {
		return
	}
	next := api.VolumeAttachment{
		PluginID: c.PluginID, ExternalID: c.ExternalID, NodeID: c.NodeID, AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode,
		MountOptions: c.MountOptions,
	}
	if a != nil {
		next = *a
	}
	next.ProviderNodeID = cmp.Or(next.ProviderNodeID, ProviderNode(tx, c.PluginID, c.NodeID))
	next.State, next.Since, next.Fence = api.AttachmentPublished, tx.Now().UnixNano(), tx.Index()
	next.LastError, next.Refused, next.NextRetry, next.Attempts = "", 0, 0, 0
	tx.PutAttachment(&next)
}

// adopt makes claims of the node's stale mounts, which its leaving ends as it ends others.
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
		tx.PutClaim(c)
		attachedNow(tx, c)
		touched[[2]string{m.PluginID, m.ExternalID}] = true
	}
	if len(n.StaleMounts) < len(old.StaleMounts) {
		tx.PutNode(&n)
	}
}

// claimOfMount is a claim on what a node has mounted. Modes that nobody knows are those that exclude the most.
func claimOfMount(tx *state.Txn, node string, m *api.StaleMount) *api.VolumeClaim {
	v := tx.Volume(m.Namespace, m.VolumeID)
	if v == nil {
		v = &api.Volume{VolumeSpec: api.VolumeSpec{ID: m.VolumeID, Namespace: m.Namespace, PluginID: m.PluginID, ExternalID: m.ExternalID}}
	}
	c := &api.VolumeClaim{
		Namespace: m.Namespace, VolumeID: m.VolumeID, AllocID: m.AllocID, Use: m.Use, NodeID: node,
		PluginID: m.PluginID, ExternalID: m.ExternalID, State: api.ClaimReleasing, Since: tx.Now().UnixNano(),
		AccessMode: cmp.Or(m.AccessMode, strictest(v)), AttachmentMode: m.AttachmentMode,
	}
	c.Mode = claim.ModeOf(m.ReadOnly, c.AccessMode)
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
		if c.State == api.ClaimTaken {
			next := *c
			next.State = api.ClaimWaiting
			tx.PutClaim(&next)
		}
	}
	Standard().settle(tx, plugin, external)
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
	return Reconcile(tx, slices.Collect(tx.Claims()))
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
		adopt(tx, id, shared, map[[2]string]bool{})
	}
	if len(nodes) > 0 {
		requeue(tx, v.PluginID, v.RemoteID())
	}
}
