package volumes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/mounthealth"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// A record that cannot be read is taken for a mount until the mount table says that nothing is there. Its key
// still has the allocation, and a hash of volume and use that the allocation's requests explain.

// lost is what is known of a row that could not be read. VolumeID is empty when the allocation is not known.
type lost struct {
	key, allocID             string
	namespace, volumeID, use string
	// at is what is mounted at its target, or the device node there; nil when nothing is.
	at *mounts.Entry
}

// allocOf is the allocation in the key of a row.
func allocOf(key string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(key, rowPrefix), "/")
	return id
}

// lostRows looks at the damaged rows of an allocation, or of all when allocID is empty. The allocation may be nil.
func (s *Service) lostRows(allocID string, alloc *api.Allocation) (out []*lost) {
	for _, key := range s.journal.damagedRows() {
		id := allocOf(key)
		if allocID != "" && id != allocID {
			continue
		}
		l := &lost{key: key, allocID: id}
		a := alloc
		if a == nil {
			a, _ = s.live.get(id)
		}
		if a != nil {
			for _, u := range a.VolumeUses() {
				for _, use := range []string{u.Name, ""} {
					if rowKey(id, a.Namespace, u.VolumeID, use) == key {
						l.namespace, l.volumeID, l.use = a.Namespace, u.VolumeID, use
						l.at = s.findMount(csiplugins.TargetDir, targetName(a.Namespace, u.VolumeID, id, use))
					}
				}
			}
		}
		out = append(out, l)
	}
	return out
}

// stale is how the servers are told of a row that could not be read.
func (l *lost) stale() *api.StaleMount {
	m := &api.StaleMount{
		Namespace: l.namespace, VolumeID: l.volumeID, AllocID: l.allocID, Use: l.use,
		LastError: "the node's record of this mount cannot be read",
	}
	if l.at != nil {
		m.PluginID = pluginAt(l.at.Point)
	}
	return m
}

// pluginAt is the plugin below whose base a target or staging path is.
func pluginAt(path string) string { return filepath.Base(filepath.Dir(filepath.Dir(path))) }

// lose notes that the record of a row is not there though its mount is.
func (j *journal) lose(key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.byKey[key] == nil {
		j.damaged[key] = true
	}
}

// isDamaged reports whether there is a record of the key that could not be read.
func (j *journal) isDamaged(key string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.damaged[key]
}

// damagedRows lists the keys of rows that could not be read.
func (j *journal) damagedRows() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []string
	for key := range j.damaged {
		if strings.HasPrefix(key, rowPrefix) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// releaseDamaged ends those damaged rows of an allocation of which nothing is mounted. The others stay, for what
// is needed to unmount them is lost: the servers have it, and call [Service.Handlers]'s detach.
func (s *Service) releaseDamaged(ctx context.Context, allocID string, alloc *api.Allocation) error {
	var errs []error
	for _, l := range s.lostRows(allocID, alloc) {
		switch {
		case l.volumeID == "":
			errs = append(errs, fault.New(fault.Unavailable, "record %s cannot be read, and the allocation is not known: it may be mounted", l.key))
			continue
		case l.at != nil:
			errs = append(errs, fault.New(fault.Unavailable,
				"volume %q: its record cannot be read, and it is mounted at %s: the servers' detach ends that, or: volume detach -force", l.volumeID, l.at.Point))
			continue
		}
		r := &row{AllocID: l.allocID, Namespace: l.namespace, VolumeID: l.volumeID, Use: l.use}
		if err := s.report(ctx, r, ""); err != nil && !errors.Is(err, fault.NotFound) {
			errs = append(errs, fmt.Errorf("report the release of volume %q: %w", l.volumeID, err))
			continue
		}
		s.log.Warn("a record could not be read, and nothing is mounted", "volume_id", l.volumeID, "alloc_id", l.allocID)
		s.forget(l.key)
		s.planStages()
	}
	return errors.Join(errs...)
}

// admitDamaged keeps a volume of one user from a second one while the first one's record cannot be read.
func (s *Service) admitDamaged(r *row) error {
	if !r.AccessMode.SingleUser() {
		return nil
	}
	for _, key := range s.journal.damagedRows() {
		id := allocOf(key)
		for _, use := range []string{"", r.Use} {
			if key == r.key() || rowKey(id, r.Namespace, r.VolumeID, use) != key {
				continue
			}
			if at := s.findMount(csiplugins.TargetDir, targetName(r.Namespace, r.VolumeID, id, use)); at != nil {
				return fault.New(fault.Unavailable, "allocation %s, whose record cannot be read, has it at %s, and access mode %s allows one", id, at.Point, r.AccessMode)
			}
		}
	}
	return nil
}

// detachUnknown looks for a mount that the journal has lost, where it would be. When nobody knows what the driver
// calls the volume, the node unmounts it itself.
func (s *Service) detachUnknown(ctx context.Context, req *api.NodeVolumeDetachRequest) error {
	r := &row{
		State: rowLeaving, AllocID: req.AllocID, Namespace: req.Namespace, VolumeID: req.VolumeID, Use: req.Use,
		PluginID: req.PluginID, ExternalID: req.ExternalID, Stages: true, BootID: s.bootID,
	}
	if r.ExternalID == "" && !s.identify(r) {
		return nil
	}
	if err := csiplugins.CheckPluginID(r.PluginID); err != nil {
		return err
	}
	target, device, err := s.lostTarget(r)
	if err != nil {
		return err
	}
	staged := s.stagingOf(r)
	if target.Host == "" && (staged == nil || len(s.journal.users(r)) > 0) {
		return nil
	}
	u := &undoing{own: req.Force, force: req.Force}
	if r.ExternalID == "" {
		u.own, u.without = true, "nobody knows what its plugin calls the volume"
	} else if u.p, err = s.plugins.Wait(ctx, api.CSIPluginTypeNode, r.PluginID, downPluginWait); err != nil && !req.Force {
		return err
	}
	release, err := s.turn(ctx, "detach "+r.key(), r.PluginID, r.volume())
	if err != nil {
		return err
	}
	defer release()
	if _, is := s.live.get(req.AllocID); is { // it was taken up meanwhile, and keeps what it has
		return fault.New(fault.Conflict, "allocation %s runs on this node again", req.AllocID)
	}
	if r.Target = target; device {
		r.AttachmentMode = api.AttachmentBlock
	}
	if staged == nil && u.p != nil && s.plugins.Stages(u.p) {
		r.Staging = stagingAt(u.p.Base, r.PluginID, r.ExternalID)
		if err := s.mendStage(ctx, r); err != nil {
			return err
		}
	}
	if err := s.undo(ctx, u, r); err != nil {
		s.planStages()
		return err
	}
	s.tellOwn(r, u)
	return nil
}

// lostTarget finds the target of a row that the journal has lost; the path is empty when nothing is there.
func (s *Service) lostTarget(r *row) (at place, device bool, err error) {
	for _, kind := range []string{api.CSIPluginTypeNode, api.CSIPluginTypeMonolith} {
		base := s.plugins.BaseOf(kind, r.PluginID)
		at = targetAt(place{Host: base, Plugin: base}, r.Namespace, r.VolumeID, r.AllocID, r.Use)
		device = s.host.IsDevice(at.Host)
		on, err := s.host.IsPoint(at.Host)
		if err != nil || on || device {
			return at, device, err
		}
	}
	return place{}, false, nil
}

// identify completes a row by what is mounted at its target: the plugin, and what it calls the volume when a record
// of its staging is there. It reports whether there is a plugin to look at.
func (s *Service) identify(r *row) bool {
	at := s.findMount(csiplugins.TargetDir, targetName(r.Namespace, r.VolumeID, r.AllocID, r.Use))
	if at == nil {
		return r.PluginID != ""
	}
	r.PluginID = pluginAt(at.Point)
	for _, st := range s.journal.allStages() {
		if st.PluginID == r.PluginID && st.Seen != nil && st.Seen.Same(at) {
			r.ExternalID = st.ExternalID
		}
	}
	return true
}

// detachNameless ends the damaged rows of an allocation that is not known, whose volumes nobody can tell. What is
// mounted at targets and is of no known allocation, nor of one that the servers have on this node, is theirs, or that of
// others like it: the node unmounts it.
func (s *Service) detachNameless(ctx context.Context, req *api.NodeVolumeDetachRequest) error {
	if !s.strays.told() {
		return fault.New(fault.Unavailable, "the servers have not said yet which allocations are on this node")
	}
	all, err := s.nameless()
	if err != nil {
		return err
	}
	for _, e := range all {
		if err := s.detachStray(ctx, e, s.nameless, req.Force); err != nil {
			return fmt.Errorf("unmount %s, whose record cannot be read: %w", e.Point, err)
		}
	}
	for _, key := range s.journal.damagedRows() {
		if allocOf(key) == req.AllocID {
			if err := s.giveUpDamaged(key); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveUpDamaged forgets a record that could not be read, once nothing of it is left, unless its allocation was taken up
// meanwhile: that needs it.
func (s *Service) giveUpDamaged(key string) error {
	if _, is := s.live.get(allocOf(key)); is {
		return fault.New(fault.Conflict, "allocation %s runs on this node again", allocOf(key))
	}
	s.forget(key)
	s.planStages()
	return nil
}

// mend makes a new record for a use whose record could not be read, when its mount is there and lives: tasks may
// be using it. It returns nil when there is nothing to keep.
func (s *Service) mend(ctx context.Context, next row) (*row, error) {
	at := s.findMount(csiplugins.TargetDir, targetName(next.Namespace, next.VolumeID, next.AllocID, next.Use))
	if at == nil {
		return nil, nil
	}
	if isNode(at) && !next.device() {
		return nil, nil
	}
	if !isNode(at) {
		switch h, why := s.health.Prober().Check(ctx, at); h {
		case mounthealth.Healthy:
		case mounthealth.Failed:
			return nil, nil
		default:
			return nil, fault.New(fault.Unavailable, "its record cannot be read, and the mount at %s does not answer: %s", at.Point, why)
		}
	}
	next.Target = place{Host: at.Point, Plugin: at.Point}
	if staged := s.findMount(csiplugins.StagingDir, csiplugins.VolumeKey(next.PluginID, next.ExternalID)); next.Stages && staged != nil {
		next.Staging = place{Host: staged.Point, Plugin: staged.Point}
	}
	if err := s.mendStage(ctx, &next); err != nil {
		return nil, err
	}
	if next.State, next.Seen = rowMounted, at; isNode(at) {
		next.Seen = nil
	}
	if err := s.promise(&next); err != nil {
		return nil, err
	}
	s.log.Warn("a record could not be read: its mount is kept", "volume_id", next.VolumeID, "alloc_id", next.AllocID, "path", at.Point)
	return s.journal.put(ctx, next)
}

// mendStage makes a new record for the staging of a published volume: it is there although nothing may be mounted for it.
func (s *Service) mendStage(ctx context.Context, r *row) error {
	if !r.Stages || s.journal.stageOf(r.PluginID, r.ExternalID) != nil {
		return nil
	}
	seen, err := s.mountedAt(r.Staging.Host, false)
	if err != nil {
		return err
	}
	return s.journal.putStage(ctx, stage{
		PluginID: r.PluginID, ExternalID: r.ExternalID, Path: r.Staging, Seen: seen, Done: seen != nil, BootID: s.bootID, AllocID: r.AllocID,
	})
}

// planStages plans to unstage what no row uses: its rows were lost.
func (s *Service) planStages() {
	for _, st := range s.journal.allStages() {
		if len(s.journal.users(&row{PluginID: st.PluginID, ExternalID: st.ExternalID})) == 0 {
			s.retries.Add(st.key())
		}
	}
}
