package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// view is the mount namespace of a task with mounts. The thread is in it only while it makes it, and while it forks the
// task: what it does otherwise it does by paths of the host, over which jobs mount what they like.
type view struct{ host, task int }

func openNamespace() (int, error) {
	return syscall.Open("/proc/thread-self/ns/mnt", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
}

func setNamespace(fd int) error { return setns(fd, syscall.CLONE_NEWNS) }

// makeView makes the namespace with the task's mounts and does something in it. The thread is the host's again after it.
func makeView(spec *frame.Spec, do func() *frame.Failed) (*view, *frame.Failed) {
	if len(spec.Mounts) == 0 || spec.Isolation.On {
		return nil, do()
	}
	v := &view{}
	var err error
	if v.host, err = openNamespace(); err != nil {
		return nil, failed(true, "open the mount namespace: "+err.Error())
	}
	f := placeMounts(spec)
	if f == nil {
		f = do()
	}
	if f == nil {
		if v.task, err = openNamespace(); err != nil {
			f = failed(true, "open the mount namespace: "+err.Error())
		}
	}
	if err := setNamespace(v.host); err != nil && f == nil {
		f = failed(true, "leave the mount namespace: "+err.Error())
	}
	return v, f
}

// in does something in the namespace.
func (v *view) in(do func() error) error {
	if v == nil {
		return do()
	}
	if err := setNamespace(v.task); err != nil {
		return err
	}
	err := do()
	_ = setNamespace(v.host) // as it was possible before
	return err
}

// close releases the namespaces: that of the task lives as long as its processes.
func (v *view) close() {
	if v != nil {
		_ = syscall.Close(v.task)
		_ = syscall.Close(v.host)
	}
}

const prSetNoNewPrivs = 38

// confine keeps a task of another user than root from more rights when it sees other files than the host's outside of its
// directories: programs that run as root for everybody trust what is there.
func confine(spec *frame.Spec) error {
	if !spec.User || spec.UID == 0 || spec.Isolation.On {
		return nil
	}
	for i := range spec.Mounts {
		dest := spec.Mounts[i].Destination
		if below(dest, spec.TaskDir) || spec.AllocDir != "" && below(dest, spec.AllocDir) {
			continue
		}
		if _, _, err := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); err != 0 {
			return err
		}
	}
	return nil
}
