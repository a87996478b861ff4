package volumes

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// isBare reports whether what is published is the directory of the staging path itself, without any volume on it: the
// driver said that it is staged before it was, or the mount went away. Files that are written there never reach the volume. A
// device node there is the volume.
func isBare(at *mounts.Entry, r *row) bool {
	own := "/" + csiplugins.StagingDir + "/" + filepath.Base(r.Staging.Host) + "/"
	return at != nil && r.Stages && !r.device() && strings.Contains(at.Root+"/", own)
}

// takeBare takes such a mount away and has the volume staged once more by the next try.
func (s *Service) takeBare(ctx context.Context, p *csiplugins.Plugin, r *row) error {
	if err := s.takeTarget(ctx, &undoing{p: p}, r); err != nil {
		return fmt.Errorf("unpublish the directory of the staging path: %w", err)
	}
	if st := s.journal.stageOf(r.PluginID, r.ExternalID); st != nil {
		next := *st
		next.Done = false
		s.journal.noteStage(next)
	}
	return fault.New(fault.Unavailable, "the plugin published the directory %s and not the volume, which is not staged there although it said so", r.Staging.Host)
}
