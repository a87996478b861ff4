package main

import (
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"
)

func setGroups() error {
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(nobody); err != nil {
		return err
	}
	return syscall.Setuid(nobody)
}

// limitMemory lets the kernel refuse memory beyond the bound. It is a second bound: the program checks its memory while it executes
// templates, see [renderer.watchExecution].
func limitMemory(most uint64) {
	debug.SetMemoryLimit(int64(most / 2))
	_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: 4 * most, Max: 4 * most})
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}
