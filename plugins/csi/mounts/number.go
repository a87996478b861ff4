package mounts

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the kernel reports about a mount by its unique number (statmount and listmount, Linux 6.8), without a path that leads
// into a file system which may hang.
const (
	requestSize = 24
	answerSize  = 512

	basicOfDevice = 1
	basicOfMount  = 2

	// Offsets of the device and of the mount table's number in the reply.
	answerMajor, answerMinor, answerNumber = 16, 20, 56

	allMounts   = ^uint64(0)
	newestFirst = 1 // Linux 6.11
	listed      = 256
)

// request asks for a mount, or for those below it.
type request struct {
	size, _   uint32
	id, param uint64
}

// numbersOf returns the number of the mount table and the device of a mount; unix.ENOENT when it no longer exists.
func numbersOf(unique uint64) (id int, dev string, err error) {
	q := request{size: requestSize, id: unique, param: basicOfDevice | basicOfMount}
	var x [answerSize]byte
	if _, _, e := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&q)), uintptr(unsafe.Pointer(&x)), answerSize, 0, 0, 0); e != 0 {
		return 0, "", e
	}
	number := func(at int) uint32 { return binary.NativeEndian.Uint32(x[at:]) }
	return int(number(answerNumber)), fmt.Sprintf("%d:%d", number(answerMajor), number(answerMinor)), nil
}

// uniqueOf finds the unique number of a mount of the table; 0 when the kernel does not report it, or the mount no longer exists.
func uniqueOf(e *Entry) (out uint64) {
	eachNumber(func(unique uint64, id int, dev string) (more bool) {
		if id == e.ID && dev == e.Dev {
			out = unique
		}
		return out == 0
	})
	return out
}

// giveUnique gives mounts of the table their unique numbers.
func giveUnique(to map[string]*Entry) {
	byID := make(map[int]*Entry, len(to))
	for _, e := range to {
		byID[e.ID] = e
	}
	left := len(byID)
	eachNumber(func(unique uint64, id int, dev string) (more bool) {
		if e := byID[id]; e != nil && e.Unique == 0 && e.Dev == dev {
			e.Unique = unique
			left--
		}
		return left > 0
	})
}

// eachNumber calls tell with each mount, the newest first if the kernel supports that, until tell returns false.
func eachNumber(tell func(unique uint64, id int, dev string) (more bool)) {
	var ids [listed]uint64
	order, last := uintptr(newestFirst), uint64(0)
	for {
		q := request{size: requestSize, id: allMounts, param: last}
		n, _, errno := unix.Syscall6(unix.SYS_LISTMOUNT, uintptr(unsafe.Pointer(&q)), uintptr(unsafe.Pointer(&ids)), listed, order, 0, 0)
		if errno == unix.EINVAL && order != 0 {
			order = 0
			continue
		}
		if errno != 0 || n == 0 {
			return
		}
		for _, unique := range ids[:n] {
			if id, dev, err := numbersOf(unique); err == nil && !tell(unique, id, dev) {
				return
			}
		}
		last = ids[n-1]
	}
}
