package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// coreWords is the size of sets of cores that are asked of the kernel.
const coreWords = 256

type coreSet [coreWords]uint64

// pin makes this thread run on the cores only, so that what it forks does too, and returns how to take that
// back. The supervising process itself stays free.
func pin(cores []int64) (release func(), f *frame.Failed) {
	if len(cores) == 0 {
		return func() {}, nil
	}
	var before, wanted coreSet
	for _, id := range cores {
		if id < 0 || id >= coreWords*64 {
			return nil, failed(false, "reserved core "+itoa(id)+" does not exist")
		}
		wanted[id/64] |= 1 << (id % 64)
	}
	runtime.LockOSThread()
	size := affinity(syscall.SYS_SCHED_GETAFFINITY, &before, coreWords*8)
	if size > 0 && affinity(syscall.SYS_SCHED_SETAFFINITY, &wanted, coreWords*8) >= 0 {
		return func() {
			affinity(syscall.SYS_SCHED_SETAFFINITY, &before, size)
			runtime.UnlockOSThread()
		}, nil
	}
	runtime.UnlockOSThread()
	return nil, failed(true, "run on the reserved cores "+coreList(cores)+": not possible")
}

// affinity returns how many bytes the kernel wrote, or a negative number.
func affinity(call uintptr, set *coreSet, size int) int {
	n, _, e := syscall.RawSyscall(call, 0, uintptr(size), uintptr(unsafe.Pointer(set)))
	if e != 0 {
		return -1
	}
	return int(n)
}

func coreList(cores []int64) string {
	text := ""
	for i, id := range cores {
		if i > 0 {
			text += ","
		}
		text += itoa(id)
	}
	return text
}
