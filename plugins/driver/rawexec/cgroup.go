package rawexec

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/limits"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// chooseCgroups gives a task a cgroup, by which its processes are found, and the limits of its resources. A task with an
// override has the limits of the cgroups that it names instead. Under cgroup version 2 it has no cgroup of its own then:
// what its supervising process does not end, because that was killed, may keep a volume in use.
func (d *Driver) chooseCgroups(s *frame.Spec, c *taskConfig, t *driver.Task) error {
	if own := d.host().Cgroup(filepath.Base(s.State)); own != "" && c.CgroupV2Override == "" {
		s.Cgroup, s.OwnCgroup = own, true
	}
	key := c.override()
	if key == "" {
		return d.setLimits(s, t)
	}
	if t.Lease != nil || len(t.Mounts) > 0 {
		return invalid(fmt.Sprintf("%q is not possible for a task with volumes: processes in a cgroup that the job names may outlive the lease of the volumes; remove the key or the volume_mount blocks", key))
	}
	if c.CgroupV2Override != "" {
		root := limits.Unified()
		if root == "" {
			return invalid(fmt.Sprintf("%q needs cgroup version 2, which this node does not have", key))
		}
		dir, err := d.underCgroup(key, root, c.CgroupV2Override)
		s.Cgroup = dir
		return err
	}
	for controller, path := range c.CgroupV1Override {
		root := filepath.Join(limits.Root, controller)
		if filepath.Dir(root) != limits.Root || limits.Version(root) != 1 {
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

// setLimits gives a task the limits of its resources. Those of raw_exec cost no cgroup more: a weight, and its cores.
func (d *Driver) setLimits(s *frame.Spec, t *driver.Task) error {
	if err := setCores(s, t); err != nil {
		return err
	}
	ask := limits.Ask{CPU: t.Resources.CPUShares, Cores: s.Cores}
	if d.limits() {
		ask.Must, ask.PIDs = true, cmp.Or(d.config.PIDsLimit, limits.DefaultPIDs())
		ask.Memory, ask.Soft = memoryOf(t.Resources)
	}
	if err := d.host().Set(s, filepath.Base(s.State), ask); err != nil {
		return fmt.Errorf("task %s: %w", t.ID, err)
	}
	return nil
}

// memoryOf is what a task may use at most, and what it keeps when the memory of the host runs out, in bytes; 0 is no limit.
func memoryOf(r driver.Resources) (most, keeps int64) {
	switch reserved := r.MemoryMB << 20; {
	case r.MemoryMaxMB < 0:
		return 0, reserved
	case r.MemoryMaxMB > r.MemoryMB:
		return r.MemoryMaxMB << 20, reserved
	default:
		return reserved, 0
	}
}

// removeUnused removes the cgroups that earlier agents have left.
func (d *Driver) removeUnused() {
	removed, err := d.host().RemoveUnused()
	if removed > 0 {
		d.log.Info("removed cgroups of tasks that have ended", "count", removed)
	}
	if err != nil {
		d.log.Warn("cgroups of tasks that have ended are left", "error", err)
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
	if d.host().Owns(dir) || slices.ContainsFunc(strings.Split(dir, "/"), frame.IsHelperName) {
		return "", invalid(fmt.Sprintf("%q: cgroup %q belongs to this node", key, path))
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return "", invalid(fmt.Sprintf("%q: cgroup %s does not exist on this node; create it before the task starts", key, dir))
	}
	return dir, nil
}

func within(path, dir string) bool { return strings.HasPrefix(path, dir+"/") }
