package volumes

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

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

// bareForgets is after how many such mounts the plugin is asked to unstage first: it may believe that what a stranger has
// unmounted is staged.
const bareForgets = 2

// takeBare takes such a mount away and has the volume staged once more by the next try. A driver that has mounted nothing
// after many of them, and some time, never will: whether it stages nothing, or keeps volumes in that very directory, what
// tasks write would be on the disk of the node.
func (s *Service) takeBare(ctx context.Context, p *csiplugins.Plugin, r *row) error {
	if err := s.takeTarget(ctx, &undoing{p: p}, r); err != nil {
		return fmt.Errorf("unpublish the directory of the staging path: %w", err)
	}
	if st := s.journal.stageOf(r.PluginID, r.ExternalID); st != nil {
		next := *st
		next.Done = false
		s.journal.noteStage(next)
	}
	next := *r
	next.Bare = r.Bare.once()
	s.journal.note(next)
	class, then := fault.Unavailable, "it is staged once more"
	if s.gaveUp(next.Bare) {
		class = fault.Internal
		then = fmt.Sprintf("%d times, for %s: that directory is on the disk of the node, and is no volume", next.Bare.Failures, time.Since(next.Bare.FailingSince).Round(time.Second))
	}
	if users := s.journal.users(r); len(users) > 0 {
		then += fmt.Sprintf("; the plugin can be told to unstage it once allocation %s, which uses it on this node, has ended", users[0].AllocID)
	}
	return fault.New(class, "the plugin published the directory %s and not the volume, which is not staged there although it said so: %s", r.Staging.Host, then)
}
