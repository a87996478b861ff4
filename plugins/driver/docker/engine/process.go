package engine

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Process opens the first process of a container; nil when there is none of the container's cgroup on this host.
func Process(pid int, container string) *os.File {
	if pid <= 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "process of a container")
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || !strings.Contains(string(groups), container) {
		_ = f.Close()
		return nil
	}
	return f
}
