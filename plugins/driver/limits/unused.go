package limits

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/cgroups"

	"github.com/open-nomad/open-nomad/internal/lazy"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// ofTask are the names of the cgroups of tasks: those of their files.
var ofTask = lazy.Regexp(`-[0-9a-f]{16}\.scope$`)

// unusedFor is how long a cgroup without processes must have been there before it is treated as one that was left: the
// start of a task makes one before the task is in it.
const unusedFor = time.Minute

// RemoveUnused removes the cgroups of tasks in which no process is, and returns how many: an earlier agent did not live until
// the kernel had ended what was in them, and removed the files of the task before. Agents share the directories.
func (h *Host) RemoveUnused() (removed int, err error) {
	for _, parent := range h.Parents() {
		entries, _ := os.ReadDir(parent)
		for _, e := range entries {
			made, bad := e.Info()
			if bad != nil || !ofTask().MatchString(e.Name()) || frame.IsHelperName(e.Name()) || time.Since(made.ModTime()) < unusedFor {
				continue
			}
			dir := filepath.Join(parent, e.Name())
			if pids, bad := cgroups.GetAllPids(dir); bad != nil || len(pids) > 0 {
				continue
			}
			if bad := cgroups.RemovePath(dir); bad != nil {
				err = errors.Join(err, fmt.Errorf("remove the cgroup of a task that has ended: %w", bad))
				continue
			}
			removed++
		}
	}
	return removed, err
}
