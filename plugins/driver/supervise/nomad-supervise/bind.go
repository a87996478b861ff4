package main

import (
	"syscall"
	"unsafe"
)

// Numbers that package syscall does not have; they are the same on every architecture with these calls.
const (
	oPath = 0x200000

	sysOpenTree     = 428
	sysMoveMount    = 429
	sysMountSetattr = 442

	openTreeClone  = 1
	atRecursive    = 0x8000
	atEmptyPath    = 0x1000
	atCwd          = -0x64
	moveFromEmpty  = 0x4
	moveToEmpty    = 0x40
	mountAttrRDOnl = 1
)

type mountAttr struct{ set, clr, propagation, usernsFD uint64 }

// bind shows source at the opened target. A read-only mount is read-only before it can be seen.
func bind(source string, target int, readOnly bool) error {
	err := bindTree(source, target, readOnly)
	if err == syscall.ENOSYS || err == syscall.EPERM {
		return bindClassic(source, "/proc/self/fd/"+itoa(int64(target)), readOnly)
	}
	return err
}

func bindTree(source string, target int, readOnly bool) error {
	path, err := syscall.BytePtrFromString(source)
	if err != nil {
		return err
	}
	empty := [1]byte{}
	at := atCwd
	tree, _, e := syscall.Syscall(sysOpenTree, uintptr(at), uintptr(unsafe.Pointer(path)),
		openTreeClone|atRecursive|syscall.O_CLOEXEC)
	if e != 0 {
		return e
	}
	defer syscall.Close(int(tree))
	if readOnly {
		attr := mountAttr{set: mountAttrRDOnl}
		_, _, e = syscall.Syscall6(sysMountSetattr, tree, uintptr(unsafe.Pointer(&empty)), atEmptyPath|atRecursive,
			uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
		if e != 0 {
			return e
		}
	}
	_, _, e = syscall.Syscall6(sysMoveMount, tree, uintptr(unsafe.Pointer(&empty)), uintptr(target),
		uintptr(unsafe.Pointer(&empty)), moveFromEmpty|moveToEmpty, 0)
	if e != 0 {
		return e
	}
	return nil
}

// bindClassic needs two steps: a bind ignores the read-only flag. The path must be resolved again after
// the first, since the descriptor stands for what is covered now.
func bindClassic(source, target string, readOnly bool) error {
	var b [4096]byte
	n, err := syscall.Readlink(target, b[:])
	if err != nil {
		return err
	}
	if err := syscall.Mount(source, target, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil || !readOnly {
		return err
	}
	return syscall.Mount("", string(b[:n]), "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
}
