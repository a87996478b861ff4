package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// enterNetwork moves this thread into the network namespace of the task, and into one with the task's host name, so that what
// it forks is there, too. The thread leaves them by the returned function.
func enterNetwork(spec *frame.Spec) (leave func(), f *frame.Failed) {
	var left []func()
	leave = func() {
		for _, back := range left {
			back()
		}
	}
	enter := func(name string, flag int, do func() error) *frame.Failed {
		home, err := syscall.Open("/proc/thread-self/ns/"+name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return failed(true, "open the "+name+" namespace: "+err.Error())
		}
		left = append(left, func() {
			_ = setns(home, flag) // as it was possible before
			_ = syscall.Close(home)
		})
		if err := do(); err != nil {
			return failed(true, "enter the "+name+" namespace of the task: "+err.Error())
		}
		return nil
	}
	if spec.Network != "" {
		f = enter("net", syscall.CLONE_NEWNET, func() error {
			fd, err := syscall.Open(spec.Network, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer syscall.Close(fd)
			return setns(fd, syscall.CLONE_NEWNET)
		})
	}
	if f == nil && spec.Hostname != "" && !spec.Isolation.On { // an isolated task has such a namespace
		f = enter("uts", syscall.CLONE_NEWUTS, func() error {
			if err := syscall.Unshare(syscall.CLONE_NEWUTS); err != nil {
				return err
			}
			return syscall.Sethostname([]byte(spec.Hostname))
		})
	}
	if f != nil {
		leave()
		return nil, f
	}
	return leave, nil
}

func setns(fd, flag int) error {
	if _, _, err := syscall.RawSyscall(sysSetns, uintptr(fd), uintptr(flag), 0); err != 0 {
		return err
	}
	return nil
}
