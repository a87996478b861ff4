package volumes

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Kinds of keys.
const (
	kindExternal = "external" // plugin, external id
	kindCreate   = "create"   // namespace, volume
	kindRelease  = "release"  // namespace, volume, allocation
	kindSnapshot = "snapshot" // plugin, name, deed
	kindRoom     = "room"     // node
	kindStale    = "stale"    // node, volume, allocation
)

func externalKey(plugin, external string) key { return key{kindExternal, plugin, external, ""} }

func releaseKey(c *api.VolumeClaim) key { return key{kindRelease, c.Namespace, c.VolumeID, c.AllocID} }

func volumeKey(v *api.Volume) key {
	if v.Provision.ExternalID == "" {
		return key{kindCreate, v.Namespace, v.ID, ""}
	}
	return externalKey(v.PluginID, v.RemoteID())
}

// Run is the room's leader duty: it calls drivers for what the state intends, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	s.newTerm()
	q := newQueue(s.look, s.begin)
	defer q.drain()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := s.state.Feed(state.TableVolumes, state.TableClaims, state.TableAttachments, state.TableNodes, state.TableAllocs, state.TableSnapshots)
	defer f.Close()
	for {
		b, err := f.Next(ctx)
		if err != nil {
			return err
		}
		if b.Resync {
			s.wakeAll(ctx, q)
			continue
		}
		tx := s.state.Read()
		for _, c := range b.Changes {
			s.changed(ctx, q, tx, c)
		}
	}
}

// look does what there is to do for a key and answers when to look again.
func (s *Service) look(ctx context.Context, k key, t *tries) time.Time {
	switch k.kind {
	case kindCreate:
		return s.lookCreation(ctx, k, *t)
	case kindRelease:
		return s.lookRelease(ctx, k, *t)
	case kindSnapshot:
		return s.lookSnapshot(ctx, k, *t)
	case kindRoom:
		return s.lookRoom(ctx, k)
	case kindStale:
		return s.lookStale(ctx, k, *t)
	}
	return s.lookExternal(ctx, k, *t)
}

func (s *Service) wakeAll(ctx context.Context, q *queue) {
	tx := s.state.Read()
	s.noteLosses(tx)
	for n := range tx.Nodes() {
		s.wakeNode(ctx, q, n, false)
	}
	forgotten := false
	for c := range tx.Claims() {
		forgotten = forgotten || ledger.Forgotten(tx, c)
		if c.State == api.ClaimReleasing {
			q.wake(ctx, releaseKey(c), false)
		}
	}
	for a := range tx.Attachments() {
		if a.State != api.AttachmentPublished {
			q.wake(ctx, externalKey(a.PluginID, a.ExternalID), false)
		}
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
	if err := s.Settle(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("claims of allocations that are over were not released; they are tried again with the next collection of garbage", "error", err)
	}
}

// Settle lets all claims follow their allocations, also those that were forgotten. The collection of
// garbage calls it.
func (s *Service) Settle(ctx context.Context) error {
	_, err := s.write(ctx, &Reconcile{})
	return err
}

func pending(v *api.Volume) bool {
	return v.Provision.State != api.VolumeAvailable && v.Provision.State != api.VolumeFailed || len(v.Provision.NodeExpansion) > 0
}

func (s *Service) changed(ctx context.Context, q *queue, tx *state.Txn, c state.Change) {
	if c.Table == state.TableAllocs {
		s.allocChanged(ctx, q, tx, c)
		return
	}
	switch row := c.After.(type) {
	case *api.VolumeAttachment:
		if row.State != api.AttachmentPublished {
			q.wake(ctx, externalKey(row.PluginID, row.ExternalID), false)
		}
	case *api.VolumeClaim:
		if row.State == api.ClaimReleasing {
			q.wake(ctx, releaseKey(row), false)
		}
		if v := tx.Volume(row.Namespace, row.VolumeID); v != nil && len(v.Provision.NodeExpansion) > 0 {
			q.wake(ctx, volumeKey(v), false)
		}
	case *api.Node:
		s.wakeNode(ctx, q, row, false)
	case *api.SnapshotIntent:
		q.wake(ctx, snapshotKey(row), false)
	case *api.Volume:
		if pending(row) {
			q.wake(ctx, volumeKey(row), false)
		}
		s.policyChanged(ctx, q, tx, c)
	}
	if c.Table == state.TableNodes {
		s.nodeChanged(ctx, q, tx, c)
	}
}

// wakeNode looks at what was learned of the node's room, and at what it may still have mounted.
func (s *Service) wakeNode(ctx context.Context, q *queue, n *api.Node, afresh bool) {
	if len(n.CSILimits) > 0 {
		q.wake(ctx, roomKey(n.ID), false)
	}
	for _, m := range n.StaleMounts {
		q.wake(ctx, staleKey(n.ID, m), afresh)
	}
}

// policyChanged looks again at claims that wait for a lost node when what may be done about it changed.
func (s *Service) policyChanged(ctx context.Context, q *queue, tx *state.Txn, c state.Change) {
	before, _ := c.Before.(*api.Volume)
	after, _ := c.After.(*api.Volume)
	if before == nil || before.OnNodeLoss == after.OnNodeLoss && before.FenceAfter == after.FenceAfter {
		return
	}
	for claim := range tx.ClaimsByVolume(after.Namespace, after.ID) {
		if claim.State == api.ClaimReleasing {
			q.wake(ctx, releaseKey(claim), true)
		}
	}
}

// allocChanged looks again at claims of an allocation that has come to its end: its node should have reported.
func (s *Service) allocChanged(ctx context.Context, q *queue, tx *state.Txn, c state.Change) {
	before, _ := c.Before.(*api.Allocation)
	after, _ := c.After.(*api.Allocation)
	if before == nil || before.ClientTerminal() || after != nil && !after.ClientTerminal() {
		return
	}
	for claim := range tx.ClaimsByAlloc(before.ID) {
		if claim.State == api.ClaimReleasing {
			q.wake(ctx, releaseKey(claim), true)
		}
	}
	if n := tx.Node(before.NodeID); n != nil {
		s.wakeNode(ctx, q, n, false)
	}
}

// nodeChanged looks again at what waited for a node to leave or for its plugins to be healthy.
func (s *Service) nodeChanged(ctx context.Context, q *queue, tx *state.Txn, c state.Change) {
	before, _ := c.Before.(*api.Node)
	after, _ := c.After.(*api.Node)
	id := ""
	switch {
	case after != nil:
		id = after.ID
	case before != nil:
		id = before.ID
	}
	s.noteLoss(id, before, after)
	if before == nil || after == nil || before.Status != after.Status || before.StatusUpdatedAt != after.StatusUpdatedAt {
		for claim := range tx.ClaimsByNode(id) {
			if claim.State == api.ClaimReleasing {
				q.wake(ctx, releaseKey(claim), true)
			}
		}
		if after != nil {
			s.wakeNode(ctx, q, after, true)
		}
	}
	for _, plugin := range recovered(before, after) {
		s.wakePlugin(ctx, q, tx, plugin)
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

func (s *Service) wakePlugin(ctx context.Context, q *queue, tx *state.Txn, plugin string) {
	for a := range tx.Attachments() {
		if a.PluginID == plugin && a.State != api.AttachmentPublished {
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
