package volumes

import (
	"cmp"
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
)

// stage stages the volume. Its record is written before the call and completed after the reply.
func (t *try) stage(ctx context.Context) error {
	s, r := t.s, &t.row
	if err := s.host.MakeDir(r.Staging.Host); err != nil {
		return err
	}
	next := t.next
	if err := s.journal.PutStage(ctx, next); err != nil {
		return err
	}
	staged := nodeVolume(r, t.on.Volume.Secrets)
	staged.AccessMode, staged.MountOptions = next.AccessMode, next.Options
	if err := s.plugins.Called(t.p, func() error { return t.p.Client().NodeStage(ctx, staged) }); err != nil {
		return err
	}
	var err error
	if next.Seen, err = s.host.At(r.Staging.Host); err != nil {
		return err
	}
	next.Helpers = s.keepHelpers(ctx, t.p, next.Seen)
	next.Done = true
	if err := s.journal.PutStage(ctx, next); err != nil {
		return err
	}
	t.staged = true
	return nil
}

// unstage unstages what an earlier use left behind. The driver is called even where the mounts were already removed: where
// another process has unmounted the staging, the driver may treat the volume as published too.
func (t *try) unstage(ctx context.Context) error {
	s, r, st := t.s, &t.row, t.staging
	u := &undoRun{p: t.p}
	on, err := s.host.IsPoint(r.Staging.Host)
	if err != nil {
		return err
	}
	if !on && st != nil && st.Seen != nil {
		if err := s.unpublishTarget(ctx, u, r); err != nil {
			return fmt.Errorf("unpublish the previous mount at the target: %w", err)
		}
	}
	s.log.Warn("unstage what an earlier use left behind", "volume_id", r.VolumeID, "path", r.Staging.Host)
	left := cmp.Or(st, &journal.Stage{PluginID: r.PluginID, ExternalID: r.ExternalID, Path: r.Staging})
	if err := s.unstagePath(ctx, u, left); err != nil {
		return fmt.Errorf("unstage the previous staging: %w", err)
	}
	return nil
}

// clearStagingDir unpublishes the directory of the staging path that the plugin has published in place of the volume. The
// next try stages the volume again.
func (t *try) clearStagingDir(ctx context.Context, reason error) error {
	s, r := t.s, &t.row
	if err := s.unpublishTarget(ctx, &undoRun{p: t.p}, r); err != nil {
		return fmt.Errorf("unpublish the directory of the staging path: %w", err)
	}
	if st := s.journal.StageOf(r.PluginID, r.ExternalID); st != nil {
		next := *st
		next.Done = false
		s.journal.NoteStage(next)
	}
	return fault.Wrap(fault.Unavailable, reason)
}

// nodeVolume is the volume of a row as its driver gets it.
func nodeVolume(r *journal.Row, secrets map[string]string) *csi.NodeVolume {
	return &csi.NodeVolume{
		ExternalID: r.ExternalID, StagingPath: r.Staging.Plugin, TargetPath: r.Target.Plugin,
		AccessMode: r.AccessMode, AttachmentMode: r.AttachmentMode, MountOptions: r.MountOptions,
		ReadOnly: r.ReadOnly, Secrets: secrets, Context: r.Context, PublishContext: r.PublishContext,
		MountGroup: mountGroup(r),
	}
}
