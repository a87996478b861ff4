package main

import (
	"runtime"
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// cgroupMount is where the controllers of cgroup version 1 are mounted.
const cgroupMount = "/sys/fs/cgroup"

// cgroup is the cgroup v2 directory that the task starts in; nil means none.
type cgroup struct {
	path string
	fd   int
	own  bool
	// kills is how often the kernel had ended processes of it for want of memory when the task started.
	kills string
}

// openCgroup prepares the task's cgroup. One of its own may fail; one that the job names may not.
func openCgroup(spec *frame.Spec) (*cgroup, *frame.Failed) {
	if spec.Cgroup == "" {
		return nil, nil
	}
	c := &cgroup{path: spec.Cgroup, own: spec.OwnCgroup}
	if c.own {
		// The kernel may kill at once what begins in a cgroup of which the processes were killed once, as an ended start did.
		removeTree(c.path)
		if syscall.Mkdir(c.path, 0o755) != nil {
			return nil, nil
		}
	}
	fd, err := syscall.Open(c.path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		if c.own {
			return nil, nil
		}
		return nil, failed(false, "\"cgroup_v2_override\": open cgroup "+c.path+": "+err.Error())
	}
	c.fd, c.kills = fd, c.oomKills()
	if spec.Weight != 0 && c.own {
		writeFile(c.path+"/cpu.weight", itoa(spec.Weight))
	}
	if len(spec.Cores) > 0 && c.own {
		writeFile(c.path+"/cpuset.cpus", coreList(spec.Cores))
	}
	return c, nil
}

// join moves this thread into the cgroups of version 1 that the job names, so that what it forks is there. It returns how
// to leave them: a supervising process that stays could be frozen with its task, and end nothing. The thread goes to the
// root of the controller, because the cgroup that it was in may be out of sight.
func join(spec *frame.Spec) (leave func(), f *frame.Failed) {
	if len(spec.Join) == 0 {
		return func() {}, nil
	}
	runtime.LockOSThread()
	joined := 0
	leave = func() {
		for _, dir := range spec.Join[:joined] {
			writeFile(rootOf(dir)+"/tasks", "0")
		}
		runtime.UnlockOSThread()
	}
	for _, dir := range spec.Join {
		text := ""
		if state := readFile(dir + "/freezer.state"); state != "" && state != "THAWED\n" {
			text = "it is frozen" // and would stop this thread
		} else if err := write(dir+"/tasks", "0"); err != nil {
			text = err.Error()
		}
		if text != "" {
			leave()
			return nil, failed(false, "\"cgroup_v1_override\": join cgroup "+dir+": "+text)
		}
		joined++
	}
	return leave, nil
}

// rootOf is the directory of the controller that a cgroup of version 1 is of.
func rootOf(dir string) string {
	for below(dirOf(dir), cgroupMount) {
		dir = dirOf(dir)
	}
	return dir
}

// kill ends every process of the cgroup at once, when that is possible.
func (c *cgroup) kill() bool {
	return c != nil && c.own && writeFile(c.path+"/cgroup.kill", "1")
}

func (c *cgroup) oomKilled() bool {
	if c == nil {
		return false
	}
	kills := c.oomKills()
	return kills != "" && kills != c.kills
}

// oomKills is the number of processes that the kernel has ended for want of memory; empty when it does not count them.
func (c *cgroup) oomKills() string {
	events := readFile(c.path + "/memory.events")
	const key = "oom_kill "
	for i := 0; i+len(key) < len(events); i++ {
		if events[i:i+len(key)] == key && (i == 0 || events[i-1] == '\n') {
			end := i + len(key)
			for end < len(events) && events[end] != '\n' {
				end++
			}
			return events[i+len(key) : end]
		}
	}
	return ""
}

func (c *cgroup) remove() {
	if c == nil {
		return
	}
	if c.fd >= 0 {
		_ = syscall.Close(c.fd)
	}
	if c.fd = -1; c.own {
		removeTree(c.path)
	}
}

// removeTree removes a cgroup with those that the task made in it.
func removeTree(dir string) {
	if syscall.Rmdir(dir) != syscall.EBUSY {
		return
	}
	for _, name := range listDir(dir) {
		var st syscall.Stat_t
		if syscall.Lstat(dir+"/"+name, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
			removeTree(dir + "/" + name)
		}
	}
	_ = syscall.Rmdir(dir)
}
