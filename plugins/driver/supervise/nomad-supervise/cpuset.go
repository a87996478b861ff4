package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// enterCpuset moves this thread into a cgroup v1 cpuset for the task, so that what it forks is held to the
// cores even when it asks for others, and returns how to leave it. The thread goes to the directory above,
// which has all cores: where it came from may be out of sight. Without a cpuset the pinned cores stay the
// task's own will.
func enterCpuset(spec *frame.Spec) (leave func()) {
	stay := func() {}
	if spec.Cpuset == "" || len(spec.Cores) == 0 {
		return stay
	}
	above := dirOf(spec.Cpuset)
	if err := syscall.Mkdir(spec.Cpuset, 0o755); err != nil && err != syscall.EEXIST {
		return stay
	}
	ready := writeFile(spec.Cpuset+"/cpuset.mems", readFile(above+"/cpuset.mems")) &&
		writeFile(spec.Cpuset+"/cpuset.cpus", coreList(spec.Cores))
	if !ready || !writeFile(spec.Cpuset+"/tasks", "0") {
		removeCpuset(spec)
		return stay
	}
	return func() { writeFile(above+"/tasks", "0") }
}

func removeCpuset(spec *frame.Spec) {
	if spec.Cpuset != "" {
		removeTree(spec.Cpuset)
	}
}
