package volumes

import (
	"cmp"
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/volumes/decide"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// intent returns the row that records what is about to be done. Where an earlier attempt, or another user, has the
// volume on this boot, its paths are kept: a plugin that comes back as another type has another base.
func (s *Service) intent(p *csiplugins.Plugin, q *request, reply *api.VolumeClaimResponse) journal.Row {
	v, c := reply.Volume, reply.Claim
	r := journal.Row{
		State: journal.Mounting, AllocID: q.alloc.ID, Namespace: q.alloc.Namespace, VolumeID: q.volumeID(), Use: q.use.Name,
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
	if before := s.journal.Row(r.Key()); before != nil {
		r.Stale = before.Stale
		if before.Touched() && before.BootID == s.bootID {
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
func (s *Service) stagedBefore(r *journal.Row) *place {
	if st := s.journal.StageOf(r.PluginID, r.ExternalID); st != nil {
		if st.BootID != s.bootID {
			return nil
		}
		return &st.Path
	}
	users := s.journal.Users(r)
	if before := s.journal.Row(r.Key()); before != nil && before.Touched() && before.Volume() == r.Volume() {
		users = append(users, before)
	}
	for _, o := range users {
		if o.Stages && o.BootID == s.bootID {
			return &o.Staging
		}
	}
	if s.unrecorded.found.Load() {
		if at := s.findMount(csiplugins.StagingDir, r.Volume()); at != nil {
			return &place{Host: at.Point, Plugin: at.Point}
		}
	}
	return nil
}

// try is one attempt to mount a use of a volume. It has the volume's turn.
type try struct {
	s  *Service
	p  *csiplugins.Plugin
	q  *request
	on *grant
	// before is the record of the use when the attempt began, row the one that it makes.
	before *journal.Row
	row    journal.Row
	// recorded, staged and published are set when this attempt has done that.
	recorded, staged, published bool
	// found is a mount of the use without a record, staging what was recorded as staged, next the record of the next one.
	found   *mounts.Entry
	staging *journal.Stage
	next    journal.Stage
}

// publishOnce makes one try, alone among the calls of the volume. The row that it returns is mounted, or, when
// its owner must be given it first, still mounting.
func (s *Service) publishOnce(ctx context.Context, p *csiplugins.Plugin, q *request, reply *grant) (*journal.Row, error) {
	release, err := s.turn(ctx, "up "+q.key(), p.PluginID, csiplugins.VolumeKey(p.PluginID, cmp.Or(reply.Claim.ExternalID, reply.Volume.RemoteID())))
	if err != nil {
		return nil, err
	}
	defer release()
	t := &try{s: s, p: p, q: q, on: reply, row: s.intent(p, q, reply.VolumeClaimResponse)}
	t.before = s.journal.Row(t.row.Key())
	for range decide.Rounds {
		seen, err := t.observe(ctx)
		if err != nil {
			return nil, err
		}
		if r, err := t.act(ctx, decide.Mount(t.wanted(), seen)); r != nil || err != nil {
			return r, err
		}
	}
	return nil, fault.New(fault.Unavailable, "something else mounts and unmounts at the paths of the volume: %s", t.row.Target.Host)
}

// act executes a step. The row that it returns ends the attempt.
func (t *try) act(ctx context.Context, step decide.Step) (*journal.Row, error) {
	s, r := t.s, &t.row
	//exhaustive:enforce
	switch step.Action {
	case decide.Refuse:
		return nil, step.Reason
	case decide.Adopt:
		return s.adoptUnrecorded(ctx, *r, t.found)
	case decide.Record:
		return nil, t.record(ctx)
	case decide.Claim:
		return nil, errStale
	case decide.Unpublish:
		s.log.Warn("unpublish what is mounted at the target", "volume_id", r.VolumeID, "path", r.Target.Host, "why", step.Reason)
		if err := s.unpublishTarget(ctx, &undoRun{p: t.p}, r); err != nil {
			return nil, fmt.Errorf("unpublish the previous mount at the target: %w", err)
		}
		return nil, nil
	case decide.Unstage:
		return nil, t.unstage(ctx)
	case decide.Stage:
		if err := t.stage(ctx); err != nil {
			return nil, fmt.Errorf("stage: %w", err)
		}
		return nil, nil
	case decide.Publish:
		if err := s.plugins.Called(t.p, func() error { return t.p.Client().NodePublish(ctx, nodeVolume(r, t.on.Volume.Secrets)) }); err != nil {
			return nil, fmt.Errorf("publish: %w", err)
		}
		t.published = true
		return nil, nil
	case decide.Restage:
		return nil, t.clearStagingDir(ctx, step.Reason)
	case decide.Restrict:
		return nil, s.restrict(r)
	case decide.Mounted:
		r.Helpers = s.keepHelpers(ctx, t.p, r.Seen)
		if !r.Owned() {
			r.State = journal.Mounted
		}
		return s.journal.Put(ctx, *r)
	}
	return nil, fault.New(fault.Internal, "no step %q", step.Action)
}

// record writes the row before anything is mounted. From then on changes are reported to the servers.
func (t *try) record(ctx context.Context) error {
	t.s.shareRoot()
	if err := t.s.plugins.MakeDirs(t.p.Base); err != nil {
		return err
	}
	r, err := t.s.journal.Put(ctx, t.row)
	if err != nil {
		return err
	}
	t.row, t.recorded = *r, true
	return t.s.promise(r)
}

// missingFlags returns the protective flags that were requested and that the mount does not have: drivers pass some of them
// over.
func missingFlags(r *journal.Row) (missing mounts.Flags) {
	if r.Device() || r.Seen == nil {
		return missing
	}
	want := mounts.FlagsOf(nil)
	if r.MountOptions != nil {
		want = mounts.FlagsOf(r.MountOptions.MountFlags)
	}
	want.ReadOnly = want.ReadOnly || r.ReadOnly
	return want.Without(r.Seen.Flags)
}

// restrict sets by a remount what the plugin did not set.
func (s *Service) restrict(r *journal.Row) error {
	missing := missingFlags(r)
	s.log.Info("the plugin did not set all flags of a mount", "volume_id", r.VolumeID, "alloc_id", r.AllocID, "path", r.Target.Host, "missing", missing.String())
	if err := s.host.Restrict(r.Target.Host, missing); err != nil {
		return fault.New(fault.Internal, "the plugin published without %s, which the node could not set: %w", missing, err)
	}
	seen := *r.Seen
	seen.Flags = seen.Flags.With(missing)
	r.Seen = &seen
	return nil
}
