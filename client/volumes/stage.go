package volumes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/mounthealth"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// stage makes sure that the volume is staged. It uses a previous staging only when the journal and the mount table
// agree on it. The caller holds the volume's turn.
func (s *Service) stage(ctx context.Context, p *csiplugins.Plugin, q *request, r *row, v *api.Volume) error {
	mode, options, err := q.staging(r.AccessMode, r.MountOptions, v.MountOptions)
	if err != nil {
		return err
	}
	if err := s.unmounting(ctx, r.Staging.Host); err != nil {
		return err
	}
	st := s.journal.stageOf(r.PluginID, r.ExternalID)
	at, err := s.mountedAt(r.Staging.Host, st != nil)
	if err != nil {
		return err
	}
	var mismatch error
	users := s.journal.users(r)
	here := st != nil && st.BootID == s.bootID && st.Path.Host == r.Staging.Host
	if here && st.Done && at != nil && !sameMount(st.Seen, at) {
		if err := s.covered(st, at, users); err != nil {
			return err
		}
	}
	if here && !st.Done { // it may be staged so
		if mismatch = st.mismatch(r, users); mismatch != nil && len(users) > 0 {
			return fault.Wrap(fault.Unavailable, mismatch)
		}
	}
	if here && st.Done && sameMount(st.Seen, at) {
		mismatch = st.mismatch(r, users)
		switch {
		case mismatch != nil && len(users) > 0 && allLeave(users):
			return fault.Wrap(fault.Unavailable, mismatch)
		case mismatch != nil && len(users) > 0:
			return mismatch
		case mismatch != nil: // no user prevents another staging
		case at == nil:
			return nil
		default:
			h, why := s.health.Prober().Usable(ctx, at)
			if h == mounthealth.Healthy {
				return nil
			}
			if h == mounthealth.Unknown {
				return fault.New(fault.Unavailable, "the state of the mount at %s is unknown: %s", at.Point, why)
			}
		}
	}
	// The driver still treats as staged what another process has unmounted.
	taken := at == nil && here && st.Done && st.Seen != nil
	if len(users) == 0 && (mismatch != nil || taken || at != nil && (st == nil || st.Done)) {
		if at != nil {
			if err := s.unrecordedUser(r, at); err != nil {
				return err
			}
		}
		if err := s.unstageLeft(ctx, p, r, st, taken); err != nil {
			return err
		}
	}
	if err := s.host.MakeDir(r.Staging.Host); err != nil {
		return err
	}
	next := stage{
		PluginID: r.PluginID, ExternalID: r.ExternalID, Path: r.Staging, BootID: s.bootID,
		AllocID: r.AllocID, AccessMode: mode, Options: options,
	}
	if err := s.journal.putStage(ctx, next); err != nil {
		return err
	}
	staged := r.node(v.Secrets)
	staged.AccessMode, staged.MountOptions = mode, options
	if err := s.plugins.Called(p, func() error { return p.Client().NodeStage(ctx, staged) }); err != nil {
		return err
	}
	if next.Seen, err = s.host.At(r.Staging.Host); err != nil {
		return err
	}
	next.Helpers = s.keepHelpers(ctx, p, next.Seen)
	next.Done = true
	return s.journal.putStage(ctx, next)
}

// covered returns an error if something is mounted over a staging whose mounts other users have: it would be published in
// place of the volume.
func (s *Service) covered(st *stage, at *mounts.Entry, users []*row) error {
	for _, o := range users {
		on, err := s.host.At(o.Target.Host)
		if err != nil {
			return err
		}
		if st.Seen != nil && on != nil && on.Same(st.Seen) {
			return fault.New(fault.Unavailable, "%s (%s) is mounted over the volume at %s, which allocation %s uses: unmount it", at.Dev, at.FSType, st.Path.Host, o.AllocID)
		}
	}
	return nil
}

// unstageLeft unstages what an earlier use left behind. An earlier attempt may have published it too: nothing is
// unstaged under a mount. The driver is called even where the mounts were already removed.
func (s *Service) unstageLeft(ctx context.Context, p *csiplugins.Plugin, r *row, st *stage, taken bool) error {
	if err := s.clearTarget(ctx, p, r, nil); err != nil {
		return err
	}
	if taken {
		if err := s.unpublishTarget(ctx, &undoRun{p: p}, r); err != nil {
			return err
		}
	}
	s.log.Warn("unstage what an earlier use left behind", "volume_id", r.VolumeID, "path", r.Staging.Host)
	left := cmp.Or(st, &stage{PluginID: r.PluginID, ExternalID: r.ExternalID, Path: r.Staging})
	if err := s.unstagePath(ctx, &undoRun{p: p}, left); err != nil {
		return fmt.Errorf("unstage the previous staging: %w", err)
	}
	return nil
}

// allLeave reports whether the rows are being unmounted.
func allLeave(rows []*row) bool {
	return !slices.ContainsFunc(rows, func(r *row) bool { return r.State != rowLeaving })
}

// mismatch returns why a user cannot share the staging; nil when it can. Users may differ in the flags of single
// mounts as long as the staging has none that they do not want.
func (st *stage) mismatch(r *row, users []*row) error {
	who := st.AllocID
	if len(users) > 0 && !slices.ContainsFunc(users, func(o *row) bool { return o.AllocID == who }) {
		who = users[0].AllocID
	}
	if !st.Options.SameFileSystem(r.MountOptions) {
		return fault.New(fault.Conflict, "allocation %s uses it on this node with %s, and this one needs %s: they cannot share it",
			who, optionsText(st.Options), optionsText(r.MountOptions))
	}
	wanted := r.MountOptions.PerMountFlags()
	for _, f := range st.Options.PerMountFlags() {
		if !slices.Contains(wanted, f) {
			return fault.New(fault.Conflict, "allocation %s uses it on this node with the mount flag %s, which this one does not have: they cannot share it", who, f)
		}
	}
	if st.AccessMode.ReadOnly() && !r.AccessMode.ReadOnly() {
		return fault.New(fault.Unavailable, "allocation %s uses it on this node in mode %s, which allows no writer", who, st.AccessMode)
	}
	return nil
}

func optionsText(o *api.MountOptions) string {
	if o == nil || o.FSType == "" && len(o.MountFlags) == 0 {
		return "no mount options"
	}
	out := "fs_type " + o.FSType
	if o.FSType == "" {
		out = "the default fs_type"
	}
	if len(o.MountFlags) > 0 {
		out += fmt.Sprintf(" and %d mount flags (%s)", len(o.MountFlags), strings.Join(o.PerMountFlags(), ","))
	}
	return out
}

// mountedAt returns what is mounted at a path. Where nothing was expected that is asked of the path first, which costs
// less than the mount table of a host with many volumes.
func (s *Service) mountedAt(path string, expected bool) (*mounts.Entry, error) {
	if !expected {
		if on, err := s.host.IsPoint(path); err != nil || !on {
			return nil, err
		}
	}
	return s.host.At(path)
}

func sameMount(a, b *mounts.Entry) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Same(b)
}
