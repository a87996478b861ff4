package reconciler

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Kinds of keys.
const (
	kindExternal = "external" // plugin, external id
	kindCreate   = "create"   // namespace, volume
	kindRelease  = "release"  // namespace, volume, allocation and use
	kindSnapshot = "snapshot" // plugin, name, operation
	kindLimit    = "limit"    // node
	kindHook     = "hook"     // node
	kindStale    = "stale"    // node, volume, allocation
	kindRestore  = "restore"
)

func externalKey(plugin, external string) key { return key{kindExternal, plugin, external, ""} }

func releaseKey(c *api.VolumeClaim) key {
	return key{kindRelease, c.Namespace, c.VolumeID, c.AllocID + "/" + c.Use}
}

func volumeKey(v *api.Volume) key {
	if v.Provision.ExternalID == "" {
		return key{kindCreate, v.Namespace, v.ID, ""}
	}
	return externalKey(v.PluginID, v.RemoteID())
}

// Run calls drivers for what the state intends, until ctx ends.
func (r *Reconciler) Run(ctx context.Context) error {
	r.newTerm()
	var q *queue
	q = newQueue(func(ctx context.Context, k key, t *tries) time.Time { return r.look(ctx, q, k, t) }, r.begin, r.soon)
	defer func() {
		if left := q.drain(); len(left) > 0 {
			r.log.Warn("calls of the end of this term hang: they are left behind", "left", left)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.setRetry(func(keys ...key) {
		for _, k := range keys {
			q.wake(ctx, k, true)
		}
	})
	defer r.setRetry(nil)
	f := r.state.Feed(state.TableVolumes, state.TableClaims, state.TableAttachments, state.TableNodes, state.TableAllocs, state.TableSnapshots, state.TableCluster, state.TableVariables)
	defer f.Close()
	for {
		b, err := f.Next(ctx)
		if err != nil {
			return err
		}
		if b.Resync {
			r.hold = r.state.Read().Rollback()
			r.wakeAll(ctx, q)
			continue
		}
		tx := r.state.Read()
		for _, c := range b.Changes {
			r.changed(ctx, q, tx, c)
		}
	}
}

func (r *Reconciler) setRetry(retry func(...key)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retry = retry
}

// Retry makes the failed calls about a volume, its claims and its snapshots now. It does nothing on a server that does
// not lead.
func (r *Reconciler) Retry(v *api.Volume) {
	r.mu.Lock()
	retry := r.retry
	r.mu.Unlock()
	if retry == nil {
		return
	}
	tx := r.state.Read()
	keys := []key{volumeKey(v), externalKey(v.PluginID, v.RemoteID())}
	for c := range tx.ClaimsByExternal(v.PluginID, v.RemoteID()) {
		if c.State == api.ClaimReleasing {
			keys = append(keys, releaseKey(c))
		}
	}
	for i := range tx.SnapshotIntents() {
		if i.PluginID == v.PluginID && i.ExternalID == v.RemoteID() {
			keys = append(keys, snapshotKey(i))
		}
	}
	retry(keys...)
}

// look does what there is to do for a key and returns when to look again.
func (r *Reconciler) look(ctx context.Context, q *queue, k key, t *tries) time.Time {
	switch k.kind {
	case kindCreate:
		return r.lookCreation(ctx, k, *t)
	case kindRelease:
		return r.lookRelease(ctx, k, *t)
	case kindSnapshot:
		return r.lookSnapshot(ctx, k, *t)
	case kindLimit:
		return r.lookLimit(ctx, k)
	case kindRestore:
		return r.endHold(ctx)
	case kindStale:
		return r.lookStale(ctx, k, *t)
	case kindHook:
		return r.lookHook(ctx, k, *t, func(tx *state.Txn) { r.wakeReleases(ctx, q, tx, k.a) })
	}
	return r.lookExternal(ctx, k, *t)
}

func (r *Reconciler) wakeAll(ctx context.Context, q *queue) {
	tx := r.state.Read()
	r.noteLosses(tx)
	r.flights.check(tx, "")
	q.wake(ctx, restoreKey(), false)
	for n := range tx.Nodes() {
		r.wakeNode(ctx, q, n, false)
	}
	forgotten := false
	for c := range tx.Claims() {
		forgotten = forgotten || ledger.Forgotten(tx, c)
		if c.State == api.ClaimReleasing {
			r.wakeRelease(ctx, q, c, false)
		}
	}
	for a := range tx.Attachments() {
		if a.State != api.AttachmentPublished {
			q.wake(ctx, externalKey(a.PluginID, a.ExternalID), false)
		}
	}
	for a := range tx.WrittenOff() {
		q.wake(ctx, externalKey(a.PluginID, a.ExternalID), false)
	}
	for v := range tx.Volumes(api.AllNamespaces) {
		if pending(v) {
			q.wake(ctx, volumeKey(v), false)
		}
	}
	for i := range tx.SnapshotIntents() {
		q.wake(ctx, snapshotKey(i), false)
	}
	if !forgotten {
		return
	}
	if err := r.Settle(ctx); err != nil && ctx.Err() == nil {
		r.log.Warn("claims of allocations that are over were not released; they are tried again with the next collection of garbage", "error", err)
	}
}

// Settle lets all claims follow their allocations, also those that were forgotten. The collection of
// garbage calls it.
func (r *Reconciler) Settle(ctx context.Context) error {
	_, err := r.raft.Propose(ctx, &commands.Reconcile{})
	return err
}

func pending(v *api.Volume) bool {
	return v.Provision.State != api.VolumeAvailable && v.Provision.State != api.VolumeFailed || len(v.Provision.NodeExpansion) > 0
}

func (r *Reconciler) changed(ctx context.Context, q *queue, tx *state.Txn, c state.Change) {
	if c.Table == state.TableAllocs {
		r.allocChanged(ctx, q, tx, c)
		return
	}
	switch row := c.After.(type) {
	case *api.VolumeAttachment:
		if row.State != api.AttachmentPublished {
			q.wake(ctx, externalKey(row.PluginID, row.ExternalID), false)
		}
	case *api.VolumeClaim:
		if row.State == api.ClaimReleasing {
			r.wakeRelease(ctx, q, row, false)
		}
		for v := range tx.VolumesByExternal(row.PluginID, row.ExternalID) {
			if len(v.Provision.NodeExpansion) > 0 {
				q.wake(ctx, volumeKey(v), false)
			}
		}
	case *api.Node:
		r.wakeNode(ctx, q, row, false)
	case *api.SnapshotIntent:
		before, _ := c.Before.(*api.SnapshotIntent)
		q.wake(ctx, snapshotKey(row), before != nil && !maps.Equal(before.Secrets, row.Secrets))
	case *api.Volume:
		if pending(row) {
			q.wake(ctx, volumeKey(row), false)
		}
		r.specChanged(ctx, q, tx, c)
	case *api.VariableRow:
		for v := range tx.Volumes(row.Namespace) {
			if v.SecretsFrom == row.Path {
				r.secretsChanged(ctx, q, tx, v)
			}
		}
	}
	switch c.Table {
	case state.TableAttachments:
		if gone, _ := c.Before.(*api.VolumeAttachment); gone != nil && c.After == nil { // others may wait for its end
			q.wake(ctx, externalKey(gone.PluginID, gone.ExternalID), false)
		}
	case state.TableVolumes:
		r.lossChanged(ctx, q, tx, c)
	case state.TableCluster:
		q.wake(ctx, restoreKey(), false)
		r.holdChanged(ctx, q, tx)
	case state.TableNodes:
		r.nodeChanged(ctx, q, tx, c)
	case state.TableSnapshots:
		r.snapshotEnded(ctx, q, tx, c)
	}
}

// snapshotEnded looks at what waited for the end of an intent: a deletion for what made the snapshot, and the next one
// of its name for the deletion.
func (r *Reconciler) snapshotEnded(ctx context.Context, q *queue, tx *state.Txn, c state.Change) {
	gone, _ := c.Before.(*api.SnapshotIntent)
	if gone == nil || c.After != nil {
		return
	}
	for _, next := range []*api.SnapshotIntent{tx.SnapshotIntent(gone.PluginID, gone.SnapshotID, true), tx.SnapshotIntent(gone.PluginID, gone.CutAs, false)} {
		if next != nil {
			q.wake(ctx, snapshotKey(next), true)
		}
	}
}

// wakeNode looks at the node's volume limits, and at what it may still have mounted.
func (r *Reconciler) wakeNode(ctx context.Context, q *queue, n *api.Node, afresh bool) {
	if len(n.CSILimits) > 0 {
		q.wake(ctx, limitKey(n.ID), false)
	}
	for _, m := range n.StaleMounts {
		q.wake(ctx, staleKey(n.ID, m), afresh)
	}
}

// wakeRelease looks at a claim that waits for its node, and whether the node can be shut off.
func (r *Reconciler) wakeRelease(ctx context.Context, q *queue, c *api.VolumeClaim, afresh bool) {
	q.wake(ctx, releaseKey(c), afresh)
	if r.limits.FenceHook != "" {
		q.wake(ctx, hookKey(c.NodeID), false)
	}
}

// wakeReleases looks again at all claims that wait for the node.
func (r *Reconciler) wakeReleases(ctx context.Context, q *queue, tx *state.Txn, node string) {
	for c := range tx.ClaimsByNode(node) {
		if c.State == api.ClaimReleasing {
			r.wakeRelease(ctx, q, c, true)
		}
	}
}

// lossChanged looks again at claims that wait for a lost node when what may be done about it changed, by whichever spec
// of their volume.
func (r *Reconciler) lossChanged(ctx context.Context, q *queue, tx *state.Txn, c state.Change) {
	before, _ := c.Before.(*api.Volume)
	after, _ := c.After.(*api.Volume)
	if before != nil && after != nil && before.OnNodeLoss == after.OnNodeLoss && before.FenceAfter == after.FenceAfter &&
		reflect.DeepEqual(before.RequestedCapabilities, after.RequestedCapabilities) {
		return
	}
	v := cmp.Or(after, before)
	for claim := range tx.ClaimsByExternal(v.PluginID, v.RemoteID()) {
		if claim.State == api.ClaimReleasing {
			r.wakeRelease(ctx, q, claim, true)
		}
	}
}

// specChanged reconciles again the calls that may continue with the secrets of the new spec.
func (r *Reconciler) specChanged(ctx context.Context, q *queue, tx *state.Txn, c state.Change) {
	before, _ := c.Before.(*api.Volume)
	after, _ := c.After.(*api.Volume)
	if before == nil || !maps.Equal(before.Secrets, after.Secrets) {
		r.secretsChanged(ctx, q, tx, after)
	}
}

// secretsChanged reconciles again the calls that may continue with other secrets of a volume.
func (r *Reconciler) secretsChanged(ctx context.Context, q *queue, tx *state.Txn, after *api.Volume) {
	if pending(after) {
		q.wake(ctx, volumeKey(after), true)
	}
	for a := range tx.AttachmentsOf(after.PluginID, after.RemoteID()) {
		if a.State != api.AttachmentPublished {
			q.wake(ctx, externalKey(a.PluginID, a.ExternalID), true)
		}
	}
	for a := range tx.WrittenOffOf(after.PluginID, after.RemoteID()) {
		q.wake(ctx, externalKey(a.PluginID, a.ExternalID), true)
	}
	for i := range tx.SnapshotIntents() {
		if i.PluginID == after.PluginID && i.ExternalID == after.RemoteID() {
			q.wake(ctx, snapshotKey(i), true)
		}
	}
}

// allocChanged looks again at claims of an allocation that has come to its end: its node should have reported.
func (r *Reconciler) allocChanged(ctx context.Context, q *queue, tx *state.Txn, c state.Change) {
	before, _ := c.Before.(*api.Allocation)
	after, _ := c.After.(*api.Allocation)
	if before == nil || before.ClientTerminal() || after != nil && !after.ClientTerminal() {
		return
	}
	for claim := range tx.ClaimsByAlloc(before.ID) {
		if claim.State == api.ClaimReleasing {
			r.wakeRelease(ctx, q, claim, true)
		}
	}
	if n := tx.Node(before.NodeID); n != nil {
		r.wakeNode(ctx, q, n, false)
	}
}

// nodeChanged looks again at what waited for a node to leave or for its plugins to be healthy.
func (r *Reconciler) nodeChanged(ctx context.Context, q *queue, tx *state.Txn, c state.Change) {
	before, _ := c.Before.(*api.Node)
	after, _ := c.After.(*api.Node)
	id := ""
	switch {
	case after != nil:
		id = after.ID
	case before != nil:
		id = before.ID
	}
	r.noteLoss(id, before, after)
	r.flights.check(tx, id)
	if before == nil || after == nil || before.Status != after.Status || before.StatusUpdatedAt != after.StatusUpdatedAt {
		r.wakeReleases(ctx, q, tx, id)
		if after != nil {
			r.wakeNode(ctx, q, after, true)
		}
	}
	for _, plugin := range recovered(before, after) {
		r.wakePlugin(ctx, q, tx, plugin)
	}
}

// recovered lists the plugins that can be called on the node and could not before.
func recovered(before, after *api.Node) []string {
	var plugins []string
	for _, infos := range []func(*api.Node) map[string]*api.CSIInfo{
		func(n *api.Node) map[string]*api.CSIInfo { return n.CSIControllerPlugins },
		func(n *api.Node) map[string]*api.CSIInfo { return n.CSINodePlugins },
	} {
		if after == nil {
			continue
		}
		for id, i := range infos(after) {
			if usable(after, i) && (before == nil || !usable(before, infos(before)[id])) {
				plugins = append(plugins, id)
			}
		}
	}
	return plugins
}

func usable(n *api.Node, i *api.CSIInfo) bool {
	return i != nil && i.Healthy && n.Status == api.NodeStatusReady
}

func (r *Reconciler) wakePlugin(ctx context.Context, q *queue, tx *state.Txn, plugin string) {
	for a := range tx.Attachments() {
		if a.PluginID == plugin && a.State != api.AttachmentPublished {
			q.wake(ctx, externalKey(a.PluginID, a.ExternalID), true)
		}
	}
	for a := range tx.WrittenOff() {
		if a.PluginID == plugin {
			q.wake(ctx, externalKey(a.PluginID, a.ExternalID), true)
		}
	}
	for v := range tx.VolumesByPlugin(plugin) {
		if pending(v) {
			q.wake(ctx, volumeKey(v), true)
		}
	}
	for i := range tx.SnapshotIntents() {
		if i.PluginID == plugin {
			q.wake(ctx, snapshotKey(i), true)
		}
	}
	for c := range tx.Claims() {
		if c.PluginID == plugin && c.State == api.ClaimReleasing {
			q.wake(ctx, releaseKey(c), true)
		}
	}
}
