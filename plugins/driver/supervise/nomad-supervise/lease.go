package main

import (
	"syscall"
	"unsafe"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

const (
	clockBoottime  = 7
	umountNoFollow = 8
	// againMS is the pause between tries to end a task whose lease is over.
	againMS = 100
	// syncMS bounds the wait for data to reach a volume that may be gone.
	syncMS = 20_000
	// busyTries bounds, at againMS each, the wait for others who use a mount.
	busyTries = 50
)

// lease is the promise that the task stops using its volumes when no server was heard for too long. It is
// kept here since the agent may be dead. Times are of CLOCK_BOOTTIME, which counts while the host sleeps.
type lease struct {
	term, from int64 // nanoseconds; a term of 0 never ends
	home       int   // the host's mount namespace
	ended      bool
}

func takeLease(spec *frame.Spec) lease {
	l := lease{term: spec.Lease, from: spec.LeaseFrom, home: -1}
	if l.term > 0 {
		l.home, _ = syscall.Open("/proc/thread-self/ns/mnt", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	}
	return l
}

func (l *lease) renew(from int64) { l.from = max(l.from, from) }

// wait is for how many milliseconds nothing needs to be done; negative means for ever.
func (l *lease) wait() int64 {
	switch {
	case l.term <= 0:
		return -1
	case l.ended:
		return againMS
	}
	return max(l.from+l.term-bootTime(), 0)/1e6 + 1
}

// over reports whether the task must end. It stays so: the mounts may be taken away by now.
func (l *lease) over() bool {
	return l.ended || l.term > 0 && bootTime() >= l.from+l.term
}

// unmount takes the paths away from the host once nothing of the task is left.
func (l *lease) unmount(paths []string) {
	if l.home >= 0 {
		_, _, _ = syscall.RawSyscall(sysSetns, uintptr(l.home), syscall.CLONE_NEWNS, 0)
	}
	for _, p := range paths {
		synced(p)
	}
	for _, p := range paths {
		for try := 0; ; try++ {
			err := syscall.Unmount(p, umountNoFollow)
			if err == syscall.EBUSY && try < busyTries {
				poll([]pollFD{{-1, 0, 0}}, againMS)
				continue
			}
			if err == syscall.EBUSY {
				_ = syscall.Unmount(p, syscall.MNT_FORCE|syscall.MNT_DETACH|umountNoFollow)
			}
			break
		}
	}
}

// synced writes a file system's data back, for as long as that may take. Storage that is gone holds up a
// thread of its own, which ends with the process.
func synced(path string) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	var done [2]int
	if syscall.Pipe2(done[:], syscall.O_CLOEXEC) != nil {
		return
	}
	go func() {
		_, _, _ = syscall.Syscall(sysSyncfs, uintptr(fd), 0, 0)
		_ = syscall.Close(fd)
		_ = syscall.Close(done[1])
	}()
	poll([]pollFD{{int32(done[0]), pollIn, 0}}, syncMS)
	_ = syscall.Close(done[0])
}

func bootTime() int64 {
	var t syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}
