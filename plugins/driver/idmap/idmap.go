// Package idmap mounts directories so that their files have other owners, without changing the files: idmapped mounts of
// the kernel, since Linux 5.12. A user namespace, which no process of a task ever enters, describes the mapping.
package idmap

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/fileowner"
)

// Swap makes the user namespace of a mount on which files of the owner from belong to the owner to, and the other way
// round; all other owners stay. Each id keeps one counterpart, so that each user of the task can make files. The mapping is
// that of the open file.
func Swap(from, to fileowner.Owner) (*os.File, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Only a process can make a user namespace with a mapping. This one is stopped before its first instruction. Its tracer
	// is a thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child, err := os.StartProcess(self, []string{"nomad-idmap"}, &os.ProcAttr{Env: []string{}, Sys: &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER, Ptrace: true, Pdeathsig: syscall.SIGKILL,
		UidMappings: swapped(from.UID, to.UID), GidMappings: swapped(from.GID, to.GID), GidMappingsEnableSetgroups: true,
	}})
	if err != nil {
		return nil, fault.New(fault.Invalid, "make a user namespace for the owners of a mount: %w (does user.max_user_namespaces allow one?)", err)
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", child.Pid))
	_ = child.Kill()
	_, _ = child.Wait()
	return ns, err
}

// swapped exchanges two ids of the mount and keeps the others: the container's ids are those of the file system.
func swapped(a, b uint32) []syscall.SysProcIDMap {
	a, b = min(a, b), max(a, b)
	var out []syscall.SysProcIDMap
	same := func(from, until uint32) {
		if from < until {
			out = append(out, syscall.SysProcIDMap{ContainerID: int(from), HostID: int(from), Size: int(until - from)})
		}
	}
	if a == b {
		same(0, math.MaxUint32)
		return out
	}
	same(0, a)
	out = append(out, syscall.SysProcIDMap{ContainerID: int(a), HostID: int(b), Size: 1})
	same(a+1, b)
	out = append(out, syscall.SysProcIDMap{ContainerID: int(b), HostID: int(a), Size: 1})
	same(b+1, math.MaxUint32)
	return out
}

// Bind mounts what an open file stands for at the path target, without what is mounted below it, with the mapping of the
// user namespace at the path ns.
func Bind(source int, target, ns string) error {
	mapping, err := os.Open(ns)
	if err != nil {
		return err
	}
	defer mapping.Close()
	tree, err := unix.OpenTree(source, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return Explain(err)
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(mapping.Fd())}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return Explain(err)
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// Explain adds what an error of the kernel means for a mount with other owners.
func Explain(err error) error {
	switch {
	case errors.Is(err, unix.EINVAL):
		return fault.New(fault.Invalid, "its file system cannot be mounted with other owners: %w", err)
	case errors.Is(err, unix.EPERM):
		return fault.New(fault.Invalid, "it is mounted with other owners already, or the node may not: %w", err)
	case errors.Is(err, unix.ENOSYS):
		return fault.New(fault.Invalid, "the kernel cannot mount with other owners (Linux 5.12 can): %w", err)
	}
	return err
}
