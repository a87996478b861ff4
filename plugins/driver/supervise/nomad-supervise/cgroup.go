package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// cgroup is the cgroup v2 directory that the task starts in; nil means none.
type cgroup struct {
	path string
	fd   int
	own  bool
}

// openCgroup prepares the task's cgroup. One of its own may fail unless it has limits that the task must have; one that
// the job names may not.
func openCgroup(spec *frame.Spec) (*cgroup, *frame.Failed) {
	if spec.Cgroup == "" {
		return nil, nil
	}
	c := &cgroup{path: spec.Cgroup, own: spec.OwnCgroup, fd: -1}
	if c.own {
		// The kernel may kill at once what begins in a cgroup of which the processes were killed once, as an ended start did.
		removeTree(c.path)
		if err := syscall.Mkdir(c.path, 0o755); err != nil {
			return nil, missed(spec, c.path, "make", err)
		}
	}
	fd, err := syscall.Open(c.path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		if c.own {
			c.remove()
			return nil, missed(spec, c.path, "open", err)
		}
		return nil, failed(false, "\"cgroup_v2_override\": open cgroup "+c.path+": "+err.Error())
	}
	if c.fd = fd; c.own {
		if _, f := setLimits(spec, c.path); f != nil {
			c.remove()
			return nil, f
		}
	}
	return c, nil
}

// kill ends every process of the cgroup at once, when that is possible.
func (c *cgroup) kill() bool {
	return c != nil && c.own && writeFile(c.path+"/cgroup.kill", "1")
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
