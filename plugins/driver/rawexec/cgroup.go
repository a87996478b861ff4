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

const defaultCgroupParent = "nomad.slice"

// cgroupRoot finds the cgroup v2 hierarchy of a host with version 2 or both; empty when there is none.
func cgroupRoot() string {
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
			return dir
		}
	}
	return ""
}

// cgroupParent makes the directory for the cgroups of tasks and returns it; empty when that is not
// possible, in which case tasks stay in the agent's cgroup.
func (d *Driver) cgroupParent() string {
	root := cgroupRoot()
	if root == "" || d.config.NoCgroups {
		return ""
	}
	dir := filepath.Join(root, cmp.Or(d.config.CgroupParent, defaultCgroupParent))
	err := os.Mkdir(dir, 0o755)
	if err != nil && !errors.Is(err, fs.ErrExist) || unix.Access(dir, unix.W_OK) != nil {
		return ""
	}
	_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+cpu"), 0)
	_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+cpu"), 0)
	_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+cpuset"), 0)
	_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+cpuset"), 0)
	return dir
}

func (d *Driver) chooseCgroups(s *frame.Spec, c *taskConfig, t *driver.Task) {
	for controller, path := range c.CgroupV1Override {
		s.Join = append(s.Join, underCgroup(filepath.Join("/sys/fs/cgroup", controller), path))
	}
	if c.CgroupV2Override != "" {
		s.Cgroup = underCgroup(cmp.Or(cgroupRoot(), "/sys/fs/cgroup"), c.CgroupV2Override)
		return
	}
	if parent := d.cgroups(); parent != "" && len(s.Join) == 0 {
		s.Cgroup, s.OwnCgroup = ownCgroup(parent, s.State), true
		s.Weight = weight(t.Resources.CPUShares)
	}
}

// ownCgroup is the cgroup directory of the task with that state path.
func ownCgroup(parent, state string) string {
	return filepath.Join(parent, filepath.Base(state)+".scope")
}

func underCgroup(root, path string) string {
	if path == root || len(path) > len(root) && path[:len(root)+1] == root+"/" {
		return path
	}
	return filepath.Join(root, path)
}

// weight maps shares in MHz, whose default 100 corresponds to little and 1024 to one usual share, to
// cpu.weight, which is between 1 and 10000.
func weight(shares int64) int64 {
	if shares <= 0 {
		return 0
	}
	return 1 + (min(max(shares, 2), 262144)-2)*9999/262142
}
