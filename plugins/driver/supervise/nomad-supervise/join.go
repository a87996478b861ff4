package main

import (
	"runtime"
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// joined is the path of the network namespace that this process is to join; empty when there is none.
func joined() string {
	path, _ := syscall.Getenv(frame.JoinKey)
	return path
}

// The namespaces of a process are those of its main thread.
func init() {
	if joined() != "" {
		runtime.LockOSThread()
	}
}

// joinNetwork moves this process into a network namespace and waits until it is killed: an engine lets containers join the namespace of
// the first process of another one, not one at a path.
func joinNetwork(path string) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == nil {
		err = setns(fd, syscall.CLONE_NEWNET)
	}
	if err != nil {
		_, _ = syscall.Write(2, []byte("join the network namespace: "+err.Error()+"\n"))
		syscall.Exit(1)
	}
	idle()
}
