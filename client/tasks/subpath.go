package tasks

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/plugins/csi/owner"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// subPathWait bounds making directories on a volume, which may hang.
const subPathWait = 30 * time.Second

// subPaths makes the directories of volumes that the task mounts instead of their roots.
func subPaths(ctx context.Context, job *driver.Task) error {
	ctx, cancel := context.WithTimeout(ctx, subPathWait)
	defer cancel()
	for i := range job.Mounts {
		m := &job.Mounts[i]
		if m.SubPath == "" {
			continue
		}
		clean, err := owner.Clean(m.SubPath)
		if err == nil {
			err = owner.MakeDir(ctx, m.Source, clean, m.Owner, !m.ReadOnly)
		}
		if err != nil {
			return fmt.Errorf("task %s: mount at %s: %w", job.Name, m.Destination, err)
		}
		m.SubPath = clean
	}
	return nil
}
