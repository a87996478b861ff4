package supervise

import (
	"time"

	"github.com/opencontainers/cgroups"
)

// Retries of a removal in the background, for processes that the kernel takes long to end.
const laterTries, laterPause = 3600, time.Second

// removeCgroup removes a task's cgroup and the cgroups that the task created in it.
func removeCgroup(dir string) {
	if dir == "" || cgroups.RemovePath(dir) == nil {
		return
	}
	go func() {
		for range laterTries {
			time.Sleep(laterPause)
			if cgroups.RemovePath(dir) == nil {
				return
			}
		}
	}()
}
