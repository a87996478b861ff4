package supervise

import (
	"os"
	"path/filepath"
	"time"

	"github.com/open-nomad/open-nomad/internal/cgroup"
)

// Tries to remove a cgroup: at once, and beside for what the kernel takes long to end.
const (
	removeTries, removePause = 50, time.Millisecond
	laterTries, laterPause   = 3600, time.Second
)

// removeCgroup removes a task's cgroup, with those that the task made in it.
func removeCgroup(dir string) {
	if dir != "" && !tryRemoval(dir, removeTries, removePause) {
		go tryRemoval(dir, laterTries, laterPause)
	}
}

func tryRemoval(dir string, tries int, pause time.Duration) bool {
	for range tries {
		if cgroup.Remove(dir) == nil {
			return true
		}
		if _, err := os.Stat(dir); err != nil {
			return true
		}
		time.Sleep(pause)
	}
	return false
}

// RemoveUnused removes a cgroup, with those in it, in which no process is.
func RemoveUnused(dir string) error {
	for _, d := range cgroup.Tree(dir) {
		if raw, err := os.ReadFile(filepath.Join(d, "cgroup.procs")); err != nil || len(raw) > 0 {
			return err
		}
	}
	return cgroup.Remove(dir)
}
