package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/bind"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// namespace is the task's own view of the host's files while its mounts are put in place. Nothing outside
// of the task's and the allocation's directories is created on the host: a destination whose parent lacks
// it appears in a mirror, a tmpfs that shows all entries of that parent and the new one.
type namespace struct {
	taskDir, allocDir string
	placed            []string // destinations so far
	mirrors           []uint64 // devices of the tmpfs of mirrors
}

const procMagic = 0x9fa0

// placeMounts moves the thread into a mount namespace that follows the host's and adds the task's mounts.
func placeMounts(spec *frame.Spec) *frame.Failed {
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return failed(false, "unshare the mount namespace: "+err.Error())
	}
	if err := syscall.Mount("", "/", "", syscall.MS_SLAVE|syscall.MS_REC, ""); err != nil {
		return failed(false, "detach the mount namespace: "+err.Error())
	}
	sources := make([]bind.Source, len(spec.Mounts))
	for i := range spec.Mounts { // a mount may cover the source of a later one
		m := &spec.Mounts[i]
		if f := sources[i].Open(m); f != nil {
			return about(m, f)
		}
	}
	n := &namespace{taskDir: spec.TaskDir, allocDir: spec.AllocDir}
	for i := range spec.Mounts {
		m := &spec.Mounts[i]
		if f := n.place(m, &sources[i]); f != nil {
			return about(m, f)
		}
		n.placed = append(n.placed, m.Destination)
	}
	return nil
}

func (n *namespace) place(m *frame.Mount, s *bind.Source) *frame.Failed {
	target, f := n.target(m.Destination, s.Dir)
	if f != nil {
		return f
	}
	attributes := uint64(0)
	if m.ReadOnly {
		attributes = bind.ReadOnly
	}
	err := s.Bind(target, attributes)
	_ = syscall.Close(target)
	if err != nil {
		return failed(true, err.Error())
	}
	return nil
}

// target opens the destination, making it first where it does not exist.
func (n *namespace) target(dest string, dir bool) (int, *frame.Failed) {
	if p := n.placedAbove(dest); p != "" {
		return bind.Beneath(p, dest, dir)
	}
	for _, root := range [2]string{n.taskDir, n.allocDir} {
		if root != "" && below(dest, root) {
			return bind.Beneath(root, dest, dir)
		}
	}
	if fd, err := syscall.Open(dest, bind.OPath|syscall.O_CLOEXEC, 0); err == nil {
		var fs syscall.Statfs_t
		if syscall.Fstatfs(fd, &fs) == nil && fs.Type == procMagic {
			_ = syscall.Close(fd)
			return -1, hidesProcesses()
		}
		return bind.CheckKind(fd, dir)
	}
	parent := dest
	var st syscall.Stat_t
	for {
		if parent = dirOf(parent); syscall.Stat(parent, &st) == nil {
			break
		}
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return -1, failed(false, parent+" is not a directory")
	}
	var fs syscall.Statfs_t
	if syscall.Statfs(parent, &fs) == nil && fs.Type == procMagic {
		return -1, hidesProcesses()
	}
	if !n.isMirror(st.Dev) {
		if f := n.mirror(parent); f != nil {
			return -1, f
		}
	}
	return bind.Beneath(parent, dest, dir)
}

// about names the mount that failed.
func about(m *frame.Mount, f *frame.Failed) *frame.Failed {
	f.Text = "mount " + m.Source + " at " + m.Destination + ": " + f.Text
	return f
}

func hidesProcesses() *frame.Failed {
	return failed(false, "nothing can be mounted over /proc")
}

// placedAbove is the innermost earlier mount of the task that dest lies on, where new directories belong to the volume.
func (n *namespace) placedAbove(dest string) (at string) {
	for _, p := range n.placed {
		if below(dest, p) && len(p) > len(at) {
			at = p
		}
	}
	return at
}

func (n *namespace) isMirror(dev uint64) bool {
	for _, d := range n.mirrors {
		if d == dev {
			return true
		}
	}
	return false
}

// below reports whether path lies strictly under root.
func below(path, root string) bool {
	if root == "/" {
		return path != "/"
	}
	return len(path) > len(root) && path[:len(root)] == root && path[len(root)] == '/'
}

func dirOf(path string) string {
	i := len(path) - 1
	for i > 0 && path[i] != '/' {
		i--
	}
	return path[:max(i, 1)]
}
