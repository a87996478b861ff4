package rawexec

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

const (
	defaultCgroupParent = "nomad.slice"
	cgroupMount         = "/sys/fs/cgroup"
	// scope ends the names of the cgroups of tasks.
	scope = ".scope"
)

// cgroupRoot finds the cgroup v2 hierarchy of a host with version 2 or both; empty when there is none.
func cgroupRoot() string {
	for _, dir := range []string{cgroupMount, cgroupMount + "/unified"} {
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

func (d *Driver) chooseCgroups(s *frame.Spec, c *taskConfig, t *driver.Task) error {
	for controller, path := range c.CgroupV1Override {
		if controller == ".." || filepath.Base(controller) != controller {
			return invalid(fmt.Sprintf(`"cgroup_v1_override" names %q, which is no controller`, controller))
		}
		dir, err := d.underCgroup(filepath.Join(cgroupMount, controller), path)
		if err != nil {
			return err
		}
		s.Join = append(s.Join, dir)
	}
	if c.CgroupV2Override != "" {
		var err error
		s.Cgroup, err = d.underCgroup(cmp.Or(cgroupRoot(), cgroupMount), c.CgroupV2Override)
		return err
	}
	if parent := d.cgroups(); parent != "" && len(s.Join) == 0 {
		s.Cgroup, s.OwnCgroup = ownCgroup(parent, s.State), true
		s.Weight = weight(t.Resources.CPUShares)
	}
	return nil
}

// ownCgroup is the cgroup directory of the task with that state path.
func ownCgroup(parent, state string) string {
	return filepath.Join(parent, filepath.Base(state)+scope)
}

// ofTask are the names of the cgroups of tasks, see statePath.
var ofTask = regexp.MustCompile(`-[0-9a-f]{16}\.scope$`)

// unusedFor is how long a cgroup without processes must have been there before it is treated as one that was left: the
// start of a task makes one before the task is in it.
const unusedFor = time.Minute

// removeUnused removes the cgroups of tasks in which no process is: an earlier agent did not live until the kernel had
// ended what was in them, and removed the files of the task before. Agents share the directory.
func (d *Driver) removeUnused() {
	for _, parent := range []string{d.cgroups(), d.cpusets()} {
		if parent == "" {
			continue
		}
		entries, _ := os.ReadDir(parent)
		for _, e := range entries {
			made, err := e.Info()
			if err != nil || !ofTask.MatchString(e.Name()) || frame.IsHelperName(e.Name()) || time.Since(made.ModTime()) < unusedFor {
				continue
			}
			if err := supervise.RemoveUnused(filepath.Join(parent, e.Name())); err != nil {
				d.log.Warn("remove the cgroup of a task that has ended", "cgroup", e.Name(), "error", err)
			}
		}
	}
}

// underCgroup is the directory that a job names, absolute or below root. Those that this node makes are not for jobs:
// the processes in them are another task's, or outlive the task that started them.
func (d *Driver) underCgroup(root, path string) (string, error) {
	dir := filepath.Clean(path)
	if dir != root && !within(dir, root) {
		dir = filepath.Join(root, path)
	}
	if dir != root && !within(dir, root) {
		return "", invalid(fmt.Sprintf("cgroup %q is not below %s", path, root))
	}
	elements := strings.Split(dir, "/")
	ours := slices.ContainsFunc(elements, frame.IsHelperName)
	for _, parent := range []string{d.cgroups(), d.cpusets()} {
		if parent != "" && within(dir, parent) {
			first, _, _ := strings.Cut(dir[len(parent)+1:], "/")
			ours = ours || strings.HasSuffix(first, scope)
		}
	}
	if ours {
		return "", invalid(fmt.Sprintf("cgroup %q is of this node's own", path))
	}
	return dir, nil
}

func within(path, dir string) bool { return strings.HasPrefix(path, dir+"/") }

// weight maps shares in MHz, whose default 100 corresponds to little and 1024 to one usual share, to
// cpu.weight, which is between 1 and 10000.
func weight(shares int64) int64 {
	if shares <= 0 {
		return 0
	}
	return 1 + (min(max(shares, 2), 262144)-2)*9999/262142
}
