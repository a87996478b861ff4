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

// chooseCgroups gives a task a cgroup, by which its processes are found, and the limits of its resources. A task with an
// override has the limits of the cgroups that it names instead. Under cgroup version 2 it has no cgroup of its own then:
// what its supervising process does not end, because that was killed, may keep a volume in use.
func (d *Driver) chooseCgroups(s *frame.Spec, c *taskConfig, t *driver.Task) error {
	if parent := d.cgroups(); parent != "" && c.CgroupV2Override == "" {
		s.Cgroup, s.OwnCgroup = ownCgroup(parent, s.State), true
	}
	key := c.override()
	if key == "" {
		return d.setLimits(s, t)
	}
	if t.Lease != nil || len(t.Mounts) > 0 {
		return invalid(fmt.Sprintf("%q is not possible for a task with volumes: processes in a cgroup that the job names may outlive the lease of the volumes; remove the key or the volume_mount blocks", key))
	}
	if c.CgroupV2Override != "" {
		root := cgroupRoot()
		if root == "" {
			return invalid(fmt.Sprintf("%q needs cgroup version 2, which this node does not have", key))
		}
		dir, err := d.underCgroup(key, root, c.CgroupV2Override)
		s.Cgroup = dir
		return err
	}
	for controller, path := range c.CgroupV1Override {
		root := filepath.Join(cgroupMount, controller)
		var st unix.Statfs_t
		if filepath.Dir(root) != cgroupMount || unix.Statfs(root, &st) != nil || st.Type != unix.CGROUP_SUPER_MAGIC {
			return invalid(fmt.Sprintf("%q names %q, which is no controller of cgroup version 1 on this node", key, controller))
		}
		dir, err := d.underCgroup(key, root, path)
		if err != nil {
			return err
		}
		s.Join = append(s.Join, dir)
	}
	return nil
}

func (d *Driver) setLimits(s *frame.Spec, t *driver.Task) error {
	if s.OwnCgroup {
		s.Weight = weight(t.Resources.CPUShares)
	}
	if parent := d.cpusets(); parent != "" && t.Resources.Cores != "" {
		s.Cpuset = ownCgroup(parent, s.State)
	}
	return setCores(s, t)
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

// underCgroup is the directory that a job names by the key, absolute or below root. A job may not name a cgroup that this
// node creates: the processes in it are those of another task, or outlive the task that started them.
func (d *Driver) underCgroup(key, root, path string) (string, error) {
	dir := filepath.Clean(path)
	if dir != root && !within(dir, root) {
		dir = filepath.Join(root, path)
	}
	if dir != root && !within(dir, root) {
		return "", invalid(fmt.Sprintf("%q: cgroup %q is not below %s", key, path, root))
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
		return "", invalid(fmt.Sprintf("%q: cgroup %q belongs to this node", key, path))
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return "", invalid(fmt.Sprintf("%q: cgroup %s does not exist on this node; create it before the task starts", key, dir))
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
