package rawexec

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
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

// chooseCpuset gives a task that reserves cores a cpuset, unless the job names its cgroups.
func (d *Driver) chooseCpuset(s *frame.Spec, c *taskConfig, t *driver.Task) {
	if t.Resources.Cores == "" || c.CgroupV2Override != "" || len(c.CgroupV1Override) > 0 {
		return
	}
	if parent := d.cpusets(); parent != "" {
		s.Cpuset = ownCgroup(parent, s.State)
	}
}
