package volumes

import (
	"context"
	"strings"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/mounthealth"
)

// healthView is the service as the monitor of mounts sees it.
type healthView struct{ s *Service }

// Published lists the mounts of the node, those included whose repair is under way. It implements
// [mounthealth.Volumes], with the methods below.
func (v healthView) Published() []mounthealth.Mount {
	var out []mounthealth.Mount
	for _, r := range v.s.journal.Rows() {
		if repairable(r) {
			out = append(out, mountOf(r))
		}
	}
	return out
}

// Find returns one of the mounts.
func (v healthView) Find(key string) (mounthealth.Mount, bool) {
	r := v.s.journal.Row(key)
	if !repairable(r) {
		return mounthealth.Mount{}, false
	}
	return mountOf(r), true
}

// Refreshed records that no running task has an older mount.
func (v healthView) Refreshed(ctx context.Context, key string) error {
	r := v.s.journal.Row(key)
	if r == nil {
		return nil
	}
	unlock, err := v.s.plugins.Lock(ctx, r.Volume())
	if err != nil {
		return err
	}
	defer unlock()
	if r = v.s.journal.Row(key); !repairable(r) || !r.Stale {
		return nil
	}
	next := *r
	next.Stale = false
	_, err = v.s.journal.Put(ctx, next)
	return err
}

// Republish removes a failed mount and publishes its volume again.
func (v healthView) Republish(ctx context.Context, key string) (bool, error) {
	return v.s.republish(ctx, key)
}

func mountOf(r *journal.Row) mounthealth.Mount {
	return mounthealth.Mount{
		Key: r.Key(), AllocID: r.AllocID, VolumeID: r.VolumeID, Path: r.Target.Host, Device: r.Device(), Policy: policyOf(r),
		Mounted: r.State == journal.Mounted, Stale: r.Stale, Version: r,
	}
}

// policyOf returns the volume's policy for a failed mount. A file system that a process of the plugin serves ends with
// it, so it is published again unless the volume specifies otherwise.
func policyOf(r *journal.Row) string {
	if r.OnMountDead == "" && r.Seen != nil && isFuse(r.Seen.FSType) {
		return api.MountDeadRepublish
	}
	return r.OnMountDead
}

// isFuse reports whether a file system is served by a process: fuse, fuseblk and all fuse.NAME.
func isFuse(fsType string) bool {
	return fsType == "fuse" || fsType == "fuseblk" || strings.HasPrefix(fsType, "fuse.")
}

// repairable reports whether the row is mounted, or its repair failed halfway.
func repairable(r *journal.Row) bool {
	return r != nil && (r.State == journal.Mounted || r.State == journal.Mounting)
}

// mountFailed records the failure of a mount as an event of the node.
func (s *Service) mountFailed(m mounthealth.Mount, why string) {
	s.reportMount("Dead mount", m.VolumeID, m.AllocID, fault.New(fault.Unavailable, "%s: %s", m.Path, why))
}

// republish removes a failed mount and publishes the volume again. The row stays mounted meanwhile: after a crash Up
// finds nothing at the target and publishes, and Down undoes what there may be.
func (s *Service) republish(ctx context.Context, key string) (bool, error) {
	r := s.journal.Row(key)
	if !repairable(r) {
		return false, nil
	}
	q, err := s.requestOf(r)
	if err != nil {
		return false, err
	}
	// Everything that may be missing is waited for before the failed mount goes, and outside of the turn.
	reply, err := s.claim(ctx, q)
	if err != nil {
		return false, err
	}
	p, err := s.plugins.Wait(ctx, api.CSIPluginTypeNode, r.PluginID, downPluginWait)
	if err != nil {
		return false, err
	}
	failed, err := s.clearFailed(ctx, p, key)
	if err != nil || !failed {
		return false, err
	}
	_, err = s.publish(ctx, q, reply)
	return err == nil, err
}

// requestOf returns the request that made the row.
func (s *Service) requestOf(r *journal.Row) (*request, error) {
	a, _ := s.allocs.get(r.AllocID)
	if a == nil {
		return nil, fault.New(fault.Unavailable, "allocation %s has not started on this node yet", r.AllocID)
	}
	for _, q := range requestsOf(a) {
		if q.key() == r.Key() {
			return q, nil
		}
	}
	return nil, fault.New(fault.NotFound, "allocation %s does not use volume %s", r.AllocID, nameOf(r.VolumeID, r.Use))
}

// clearFailed unpublishes the row's failed mount, and unstages below it when the staging has failed too. It
// reports false when the mount is healthy.
func (s *Service) clearFailed(ctx context.Context, p *csiplugins.Plugin, key string) (bool, error) {
	r := s.journal.Row(key)
	if r == nil {
		return false, nil
	}
	release, err := s.turn(ctx, "repair "+r.Key(), r.PluginID, r.Volume())
	if err != nil {
		return false, err
	}
	defer release()
	if r = s.journal.Row(key); !repairable(r) {
		return false, nil
	}
	at, err := s.host.At(r.Target.Host)
	if err != nil {
		return false, err
	}
	h, why := s.health.Examine(ctx, mountOf(r), at)
	switch h {
	case mounthealth.Healthy:
		return r.State == journal.Mounting, nil
	case mounthealth.Unknown:
		return false, fault.New(fault.Unavailable, "the state of the mount at %s is unknown", r.Target.Host)
	default:
		s.log.Debug("take a failed mount away", "path", r.Target.Host, "why", why)
	}
	if r, err = s.setStale(ctx, r); err != nil {
		return false, err
	}
	if at != nil && h == mounthealth.Unresponsive {
		s.abort(ctx, at, s.ownPaths(r))
	}
	u := &undoRun{p: p, own: s.pluginFailed(r.Failing)}
	err = s.clearMounts(ctx, u, r)
	s.reportOwnUnmounts(r, u)
	if err != nil {
		s.countFailure(ctx, p, r, err)
		return false, err
	}
	if r.Failures > 0 {
		next := *r
		next.Failing = journal.Failing{}
		s.journal.Note(next)
	}
	return true, nil
}

// clearMounts takes the target off, then the staging when it has failed too. Paths are removed last. The caller
// holds the volume's turn.
func (s *Service) clearMounts(ctx context.Context, u *undoRun, r *journal.Row) error {
	if err := s.unpublishTarget(ctx, u, r); err != nil {
		return err
	}
	if err := s.clearStaging(ctx, u, r); err != nil {
		return err
	}
	s.clean(r.Target.Host)
	return nil
}

// clearStaging removes a failed staging. Other allocations whose mounts of it are healthy keep it; failed mounts of
// others are removed with it, and their own repair publishes them again.
func (s *Service) clearStaging(ctx context.Context, u *undoRun, r *journal.Row) error {
	st := s.journal.StageOf(r.PluginID, r.ExternalID)
	if st == nil || st.Seen == nil {
		return nil // there is none, or nothing is mounted for it
	}
	at, err := s.host.At(st.Path.Host)
	if err != nil {
		return err
	}
	h := mounthealth.Failed
	if at != nil {
		h, _ = s.health.Prober().Check(ctx, at)
	}
	if h == mounthealth.Healthy || h == mounthealth.Unknown {
		return nil
	}
	others := s.journal.Users(r)
	if err := s.checkUnused(ctx, st, others); err != nil {
		return err
	}
	for _, o := range others {
		if err := s.unpublishTarget(ctx, u, o); err != nil {
			return err
		}
	}
	if h == mounthealth.Unresponsive {
		s.abort(ctx, at, s.ownPaths(r))
	}
	if err := s.unstagePath(ctx, u, st); err != nil {
		return err
	}
	for _, o := range others {
		s.clean(o.Target.Host)
	}
	return nil
}

// checkUnused returns an error when one of the rows has a mount of the staging that may be healthy.
func (s *Service) checkUnused(ctx context.Context, st *journal.Stage, rows []*journal.Row) error {
	for _, o := range rows {
		at, err := s.host.At(o.Target.Host)
		if err != nil {
			return err
		}
		if at == nil {
			continue
		}
		if h, _ := s.health.Examine(ctx, mountOf(o), at); h == mounthealth.Healthy || h == mounthealth.Unknown {
			return fault.New(fault.Unavailable, "the staging mount at %s has failed, but allocation %s uses it", st.Path.Host, o.AllocID)
		}
	}
	return nil
}

// setStale writes down that tasks have an older mount than the one that is published next. The caller holds the
// volume's turn.
func (s *Service) setStale(ctx context.Context, r *journal.Row) (*journal.Row, error) {
	if r.Stale {
		return r, nil
	}
	next := *r
	next.Stale = true
	return s.journal.Put(ctx, next)
}
