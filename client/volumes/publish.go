package volumes

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/mounthealth"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// intent returns the row that records what is about to be done. Where an earlier attempt, or another user, has the
// volume on this boot, its paths are kept: a plugin that comes back as another type has another base.
func (s *Service) intent(p *csiplugins.Plugin, q *request, reply *api.VolumeClaimResponse) row {
	v, c := reply.Volume, reply.Claim
	r := row{
		State: rowMounting, AllocID: q.alloc.ID, Namespace: q.alloc.Namespace, VolumeID: q.volumeID(), Use: q.use.Name,
		PluginID: p.PluginID, ExternalID: cmp.Or(c.ExternalID, v.RemoteID()), BootID: s.bootID,
		AccessMode:     cmp.Or(c.AccessMode, q.use.AccessMode),
		AttachmentMode: cmp.Or(c.AttachmentMode, q.use.AttachmentMode, api.AttachmentFileSystem),
		MountOptions:   c.MountOptions, PublishContext: reply.PublishContext, Context: v.DriverContext(), Owner: v.Owner,
		OnMountDead: v.OnMountDead, Lease: c.Lease, WriteBack: c.WriteBack,
	}
	if r.MountOptions == nil {
		r.MountOptions = q.use.MountOptions.Over(v.MountOptions)
	}
	r.ReadOnly = q.use.ReadOnly || c.Mode == api.ClaimRead || r.AccessMode.ReadOnly()
	r.Target = targetAt(p.Base, r.Namespace, r.VolumeID, r.AllocID, r.Use)
	if before := s.journal.row(r.key()); before != nil {
		r.Stale = before.Stale
		if before.touched() && before.BootID == s.bootID {
			r.Target = place{Host: before.Target.Host, Plugin: p.See(before.Target)}
		}
	}
	if s.plugins.Stages(p) {
		r.Stages, r.Staging = true, stagingAt(p.Base, r.PluginID, r.ExternalID)
		if staged := s.stagedBefore(&r); staged != nil {
			r.Staging = place{Host: staged.Host, Plugin: p.See(*staged)}
		}
	}
	return r
}

// stagedBefore returns the place where the volume may already be staged on this boot; nil when it was not staged. If
// the record of that is lost, the place comes from the rows of its users or the mount table.
func (s *Service) stagedBefore(r *row) *place {
	if st := s.journal.stageOf(r.PluginID, r.ExternalID); st != nil {
		if st.BootID != s.bootID {
			return nil
		}
		return &st.Path
	}
	users := s.journal.users(r)
	if before := s.journal.row(r.key()); before != nil && before.touched() && before.volume() == r.volume() {
		users = append(users, before)
	}
	for _, o := range users {
		if o.Stages && o.BootID == s.bootID {
			return &o.Staging
		}
	}
	if s.unrecorded.found.Load() {
		if at := s.findMount(csiplugins.StagingDir, r.volume()); at != nil {
			return &place{Host: at.Point, Plugin: at.Point}
		}
	}
	return nil
}

// publishOnce makes one try, alone among the calls of the volume. The row that it returns is mounted, or, when
// its owner must be given it first, still mounting.
func (s *Service) publishOnce(ctx context.Context, p *csiplugins.Plugin, q *request, reply *grant) (*row, error) {
	release, err := s.turn(ctx, "up "+q.key(), p.PluginID, csiplugins.VolumeKey(p.PluginID, cmp.Or(reply.Claim.ExternalID, reply.Volume.RemoteID())))
	if err != nil {
		return nil, err
	}
	defer release()
	next := s.intent(p, q, reply.VolumeClaimResponse)
	before := s.journal.row(next.key())
	if before == nil || before.State == rowLeaving || before.State == rowReleased {
		return nil, fault.New(fault.Conflict, "it is being unmounted for allocation %s", next.AllocID)
	}
	if before.touched() && before.BootID == s.bootID && before.volume() != next.volume() {
		return nil, fault.New(fault.Conflict, "it may be mounted as %q of plugin %s and is now %q of plugin %s: it can be mounted after allocation %s has released it",
			before.ExternalID, before.PluginID, next.ExternalID, next.PluginID, next.AllocID)
	}
	if !before.touched() {
		if r, err := s.adoptUnrecorded(ctx, next); r != nil || err != nil {
			return r, err
		}
	}
	if err := s.leaseOver(&next); err != nil {
		return nil, err
	}
	if err := s.admit(p, &next); err != nil {
		return nil, err
	}
	s.shareRoot()
	if err := s.plugins.MakeDirs(p.Base); err != nil {
		return nil, err
	}
	r, err := s.journal.put(ctx, next)
	if err != nil {
		return nil, err
	}
	if err := s.promise(r); err != nil {
		return nil, err
	}
	if s.stale(reply) { // from now on changes are reported to the servers
		return nil, errStale
	}
	secrets := reply.Volume.Secrets
	if r.Stages {
		if err := s.stage(ctx, p, q, r, reply.Volume); err != nil {
			return nil, fmt.Errorf("stage: %w", err)
		}
	}
	if err := s.clearTarget(ctx, p, r, before); err != nil {
		return nil, err
	}
	if err := s.plugins.Called(p, func() error { return p.Client().NodePublish(ctx, r.node(secrets)) }); err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	mounted := *r
	if mounted.Seen, err = s.verify(ctx, r); err != nil {
		return nil, err
	}
	if showsStagingDir(mounted.Seen, r) {
		return nil, s.clearStagingDir(ctx, p, r)
	}
	if err := s.restrict(&mounted); err != nil {
		return nil, err
	}
	mounted.Helpers = s.keepHelpers(ctx, p, mounted.Seen)
	if !r.owned() {
		mounted.State = rowMounted
	}
	return s.journal.put(ctx, mounted)
}

// admit enforces the access modes even where drivers do not, and where a claim was released while this node was away:
// the mounts of its allocation must be removed before another allocation gets the volume here.
func (s *Service) admit(p *csiplugins.Plugin, r *row) error {
	others := s.journal.users(r)
	for _, o := range others {
		if r.AccessMode.SingleUser() || o.AccessMode.SingleUser() {
			if o.AllocID == r.AllocID {
				return fault.New(fault.Conflict, "the group also uses it as %q, and access mode %s allows one use", cmp.Or(o.Use, o.VolumeID), r.AccessMode)
			}
			return fault.New(fault.Unavailable, "allocation %s uses it, and access mode %s allows one user", o.AllocID, cmp.Or(r.AccessMode, o.AccessMode))
		}
		if o.AttachmentMode != r.AttachmentMode {
			class := fault.Conflict
			if o.State == rowLeaving {
				class = fault.Unavailable
			}
			return fault.New(class, "allocation %s uses it as a %s on this node", o.AllocID, o.AttachmentMode)
		}
	}
	if r.AccessMode.SingleUser() && s.unrecorded.found.Load() {
		staged, err := s.mountedAt(r.Staging.Host, r.Stages)
		if err != nil {
			return err
		}
		if err := s.unrecordedUser(r, staged); err != nil {
			return err
		}
	}
	if r.Stages && p.Base.Plugin != p.Base.Host && !within(r.Staging.Host, p.Base.Host) {
		return fault.New(fault.Unavailable,
			"it is staged at %s, which this instance of plugin %s cannot see; it can be staged again after its users have ended", r.Staging.Host, p.PluginID)
	}
	return nil
}

func within(path, dir string) bool { return strings.HasPrefix(path, dir+"/") }

// clearTarget removes a mount at the target unless it is ours from the previous attempt and has not failed since.
func (s *Service) clearTarget(ctx context.Context, p *csiplugins.Plugin, r, before *row) error {
	if err := s.unmounting(ctx, r.Target.Host); err != nil {
		return err
	}
	at, err := s.mountedAt(r.Target.Host, false)
	if err != nil || at == nil {
		return err
	}
	why := "it is not in the journal"
	if before != nil && before.State == rowMounting && before.BootID == s.bootID && before.Target.Host == r.Target.Host {
		var h mounthealth.Health
		if h, why = s.health.Prober().Usable(ctx, at); h != mounthealth.Failed {
			return nil
		}
	}
	s.log.Warn("unpublish what is mounted at the target", "volume_id", r.VolumeID, "path", r.Target.Host, "why", why)
	if err := s.unpublishTarget(ctx, &undoRun{p: p}, r); err != nil {
		return fmt.Errorf("unpublish the previous mount at the target: %w", err)
	}
	return nil
}

// verify checks what the driver published: a mount that responds, or a device node.
func (s *Service) verify(ctx context.Context, r *row) (*mounts.Entry, error) {
	at, err := s.host.At(r.Target.Host)
	if err != nil {
		return nil, err
	}
	if r.device() {
		if !s.host.IsDevice(r.Target.Host) {
			return nil, fault.New(fault.Unavailable, "the plugin reports success, but %s is not a block device", r.Target.Host)
		}
		return at, nil
	}
	if at == nil {
		return nil, fault.New(fault.Unavailable, "the plugin reports success, but nothing is mounted at %s", r.Target.Host)
	}
	if h, why := s.health.Prober().Usable(ctx, at); h != mounthealth.Healthy {
		return nil, fault.New(fault.Unavailable, "the mount at %s is not usable: %s", r.Target.Host, cmp.Or(why, "it did not respond in time"))
	}
	return at, nil
}

// showsStagingDir reports whether the plugin has published the directory of the staging path and not the volume: files
// written there would be on the disk of the node. A device node in that directory is the volume.
func showsStagingDir(at *mounts.Entry, r *row) bool {
	dir := "/" + csiplugins.StagingDir + "/" + filepath.Base(r.Staging.Host) + "/"
	return at != nil && r.Stages && !r.device() && strings.Contains(at.Root+"/", dir)
}

// clearStagingDir unpublishes that directory. The next try stages the volume again.
func (s *Service) clearStagingDir(ctx context.Context, p *csiplugins.Plugin, r *row) error {
	if err := s.unpublishTarget(ctx, &undoRun{p: p}, r); err != nil {
		return fmt.Errorf("unpublish the directory of the staging path: %w", err)
	}
	if st := s.journal.stageOf(r.PluginID, r.ExternalID); st != nil {
		next := *st
		next.Done = false
		s.journal.noteStage(next)
	}
	return fault.New(fault.Unavailable, "the plugin published the directory %s and not the volume, which is not mounted there although the plugin staged it", r.Staging.Host)
}

// restrict sees to it that the mount has the protective flags that were asked for: drivers pass some of them
// over. What is missing is set by a remount of our own.
func (s *Service) restrict(r *row) error {
	if r.device() || r.Seen == nil {
		return nil
	}
	want := mounts.FlagsOf(nil)
	if r.MountOptions != nil {
		want = mounts.FlagsOf(r.MountOptions.MountFlags)
	}
	want.ReadOnly = want.ReadOnly || r.ReadOnly
	missing := want.Without(r.Seen.Flags)
	if missing == (mounts.Flags{}) {
		return nil
	}
	s.log.Info("the plugin did not set all flags of a mount", "volume_id", r.VolumeID, "alloc_id", r.AllocID, "path", r.Target.Host, "missing", missing.String())
	if err := s.host.Restrict(r.Target.Host, missing); err != nil {
		return fault.New(fault.Internal, "the plugin published without %s, which the node could not set: %w", missing, err)
	}
	seen := *r.Seen
	seen.Flags = seen.Flags.With(missing)
	r.Seen = &seen
	return nil
}
