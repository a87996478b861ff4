package isolate

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// Options of prctl.
const (
	prSetPdeathsig  = 1
	prSetKeepCaps   = 8
	prCapBsetRead   = 23
	prCapBsetDrop   = 24
	prSetSeccomp    = 22
	prSetNoNewPrivs = 38
	prCapAmbient    = 47
	ambientRaise    = 2
	ambientClearAll = 4
	modeFilter      = 2
)

// restrict permanently drops all rights of this thread that the task does not have.
func restrict(spec *frame.Spec) *frame.Failed {
	bounding, ambient := uint64(spec.Isolation.Bounding), uint64(spec.Isolation.Ambient)
	about := func(what string, err error) *frame.Failed { return failed(false, what+": "+err.Error()) }
	for c := uintptr(0); c < 64 && prctl(prCapBsetRead, c, 0) == nil; c++ {
		if bounding&(1<<c) == 0 {
			if err := prctl(prCapBsetDrop, c, 0); err != nil {
				return about("drop capability "+itoa(int(c)), err)
			}
		}
	}
	if spec.UID == 0 {
		ambient = 0 // root has what is in the bounding set
	}
	if ambient != 0 {
		if err := prctl(prSetKeepCaps, 1, 0); err != nil {
			return about("keep capabilities", err)
		}
	}
	if err := setUser(spec); err != nil {
		return about("become user "+itoa(int(spec.UID)), err)
	}
	if err := setCapabilities(spec.UID == 0, bounding, ambient); err != nil {
		return about("set capabilities", err)
	}
	if err := prctl(prSetPdeathsig, uintptr(syscall.SIGKILL), 0); err != nil { // the change of the user has cleared it
		return about("end with the supervising process", err)
	}
	if orphaned() {
		syscall.Exit(1)
	}
	if err := prctl(prSetNoNewPrivs, 1, 0); err != nil {
		return about("give up privileges", err)
	}
	filter := makeFilter(bounding)
	load := struct {
		length uint16
		filter *instruction
	}{uint16(len(filter)), &filter[0]}
	_, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, prSetSeccomp, modeFilter, uintptr(unsafe.Pointer(&load)))
	runtime.KeepAlive(filter)
	if e != 0 {
		return about("filter system calls", e)
	}
	return nil
}

// setUser changes user and groups of this thread.
func setUser(spec *frame.Spec) error {
	groups := make([]uint32, 0, len(spec.Groups)+1)
	for _, g := range spec.Groups {
		groups = append(groups, uint32(g))
	}
	var list uintptr
	if len(groups) > 0 {
		list = uintptr(unsafe.Pointer(&groups[0]))
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(groups)), list, 0); e != 0 {
		return e
	}
	g := uintptr(spec.GID)
	if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESGID, g, g, g); e != 0 {
		return e
	}
	u := uintptr(spec.UID)
	if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, u, u, u); e != 0 {
		return e
	}
	return nil
}

// capabilityVersion is the third version of the kernel's structures, with two words for each set.
const capabilityVersion = 0x20080522

// setCapabilities sets those of this thread. What it executes has the bounding set when it is root's, and the ambient set
// otherwise.
func setCapabilities(root bool, bounding, ambient uint64) error {
	var last uintptr
	for prctl(prCapBsetRead, last, 0) == nil {
		last++
	}
	known := uint64(1)<<last - 1
	held := ambient & bounding & known
	inherited := held
	if root {
		held = bounding & known
	}
	if err := prctl(prCapAmbient, ambientClearAll, 0); err != nil {
		return err
	}
	header := struct {
		version uint32
		pid     int32
	}{version: capabilityVersion}
	var data [2]struct{ effective, permitted, inheritable uint32 }
	for i := range data {
		data[i].effective, data[i].permitted, data[i].inheritable = uint32(held>>(32*i)), uint32(held>>(32*i)), uint32(inherited>>(32*i))
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0); e != 0 {
		return e
	}
	for c := uintptr(0); c < last && !root; c++ {
		if inherited&(1<<c) != 0 {
			if err := prctl(prCapAmbient, ambientRaise, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// orphaned reports whether the supervising process has ended: then no signal comes at its end.
func orphaned() bool {
	var b [1]byte
	n, _, err := syscall.Recvfrom(replyFD, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == nil && n == 0
}
