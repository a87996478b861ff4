package main

import (
	"syscall"
	"unsafe"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
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

// source is what a mount shows: a copy of the mounts there, in no namespace yet. Where the kernel makes none it is opened
// only, and the path is for its mount.
type source struct {
	fd   int
	sub  int // the opened directory that the path stands for, or -1
	path string
	dir  bool
}

func (s *source) open(m *frame.Mount) *frame.Failed {
	s.path, s.sub = m.Source, -1
	if m.Sub != "" {
		var err error
		if s.sub, err = openBelow(m.Source, m.Sub); err != nil {
			return failed(true, "sub path "+m.Sub+": "+err.Error())
		}
		s.path = "/proc/self/fd/" + itoa(int64(s.sub))
	}
	var st syscall.Stat_t
	if err := syscall.Stat(s.path, &st); err != nil {
		return failed(true, "source: "+err.Error())
	}
	s.dir = st.Mode&syscall.S_IFMT == syscall.S_IFDIR
	var err error
	if s.fd, err = cloneTree(s.path); err == syscall.ENOSYS || err == syscall.EPERM {
		s.fd, err = -1, nil
	}
	if err != nil {
		return failed(true, "source: "+err.Error())
	}
	return nil
}

func cloneTree(source string) (int, error) {
	path, err := syscall.BytePtrFromString(source)
	if err != nil {
		return -1, err
	}
	at := atCwd
	tree, _, e := syscall.Syscall(sysOpenTree, uintptr(at), uintptr(unsafe.Pointer(path)),
		openTreeClone|atRecursive|syscall.O_CLOEXEC)
	if e != 0 {
		return -1, e
	}
	return int(tree), nil
}

// bind shows the source at the opened target. A read-only mount is read-only before it can be seen.
func (s *source) bind(target int, readOnly bool) error {
	defer syscall.Close(s.sub)
	if s.fd >= 0 {
		err := bindTree(s.fd, target, readOnly)
		if err != syscall.ENOSYS && err != syscall.EPERM {
			return err
		}
	}
	return bindClassic(s.path, "/proc/self/fd/"+itoa(int64(target)), readOnly)
}

func bindTree(tree, target int, readOnly bool) error {
	empty := [1]byte{}
	if readOnly {
		attr := mountAttr{set: mountAttrRDOnl}
		_, _, e := syscall.Syscall6(sysMountSetattr, uintptr(tree), uintptr(unsafe.Pointer(&empty)), atEmptyPath|atRecursive,
			uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
		if e != 0 {
			return e
		}
	}
	_, _, e := syscall.Syscall6(sysMoveMount, uintptr(tree), uintptr(unsafe.Pointer(&empty)), uintptr(target),
		uintptr(unsafe.Pointer(&empty)), moveFromEmpty|moveToEmpty, 0)
	if e != 0 {
		return e
	}
	return syscall.Close(tree)
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
