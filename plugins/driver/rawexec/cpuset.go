package rawexec

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// cpusetRoot is where hosts with cgroup version 1, or both, have the controller of cores.
const cpusetRoot = cgroupMount + "/cpuset"

// cpusetParent makes the directory for the cpusets of tasks, with all that the one above has, and returns
// it; empty when cores are not held by cgroup version 1 here.
func (d *Driver) cpusetParent() string {
	var st unix.Statfs_t
	if d.config.NoCgroups || unix.Statfs(cpusetRoot, &st) != nil || st.Type != unix.CGROUP_SUPER_MAGIC {
		return ""
	}
	dir := filepath.Join(cpusetRoot, cmp.Or(d.config.CgroupParent, defaultCgroupParent))
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return ""
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		all, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
		if err != nil || os.WriteFile(filepath.Join(dir, file), all, 0) != nil {
			return ""
		}
	}
	return dir
}
