// Package bind shows files of the host at other places of a mount namespace. Destinations are made without following the
// symbolic links that a task could have put on the way, and a mount has its attributes before it can be seen.
//
// It is part of the supervising program: it uses package syscall and the frame package only.
package bind

import (
	"syscall"
	"unsafe"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// Numbers that package syscall does not have; they are the same on every architecture with these calls.
const (
	// OPath opens a file without access to its content.
	OPath = 0x200000
	// AtCwd stands for the working directory in place of a descriptor, AtEmptyPath for the descriptor itself.
	AtCwd       = -0x64
	AtEmptyPath = 0x1000

	sysOpenTree     = 428
	sysMoveMount    = 429
	sysMountSetattr = 442

	openTreeClone = 1
	atRecursive   = 0x8000
	moveFromEmpty = 0x4
	moveToEmpty   = 0x40
)

// Attributes of mounts.
const (
	ReadOnly = 1
	NoSuid   = 2
	NoDev    = 4
	NoExec   = 8

	idmap = 0x100000
)

type mountAttr struct{ set, clr, propagation, usernsFD uint64 }

// Source is what a mount shows: a copy of the mounts there, in no namespace yet. Where the kernel makes none it is opened
// only, and the path is for its mount.
type Source struct {
	fd   int
	sub  int // the opened directory that the path stands for, or -1
	path string
	// Dir is set when it is a directory, Device when it is a device node.
	Dir, Device bool
	// mapped is set when the copy has owners of its own.
	mapped bool
}

// Open makes the copy of the source of a mount.
func (s *Source) Open(m *frame.Mount) *frame.Failed {
	s.path, s.sub = m.Source, -1
	if m.Sub != "" {
		var err error
		if s.sub, err = OpenBelow(m.Source, m.Sub); err != nil {
			return failed(true, "sub path "+m.Sub+": "+err.Error())
		}
		s.path = "/proc/self/fd/" + itoa(s.sub)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(s.path, &st); err != nil {
		return failed(true, "source: "+err.Error())
	}
	kind := st.Mode & syscall.S_IFMT
	s.Dir, s.Device = kind == syscall.S_IFDIR, kind == syscall.S_IFBLK || kind == syscall.S_IFCHR
	var err error
	if s.fd, err = Clone(AtCwd, s.path); (err == syscall.ENOSYS || err == syscall.EPERM) && m.UserNS == "" {
		s.fd, err = -1, nil
	}
	if err != nil {
		return failed(true, "source: "+err.Error())
	}
	if m.UserNS != "" {
		return s.mapOwners(m.UserNS)
	}
	return nil
}

// mapOwners lets the copy have the owners of files that a user namespace maps to. What is mounted below it keeps its own.
func (s *Source) mapOwners(ns string) *frame.Failed {
	fd, err := syscall.Open(ns, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return failed(true, "mapping of owners: "+err.Error())
	}
	defer syscall.Close(fd)
	s.mapped = true
	switch err := setAttributes(s.fd, mountAttr{set: idmap, usernsFD: uint64(fd)}, 0); err {
	case nil:
		return nil
	case syscall.EINVAL:
		return failed(false, "its file system cannot be mounted with other owners")
	case syscall.EPERM:
		return failed(false, "it is mounted with other owners already, or the node may not")
	default:
		return failed(false, "mount with other owners: "+err.Error())
	}
}

// Clone copies the mounts at a path below an opened directory, without attaching the copy.
func Clone(at int, source string) (int, error) {
	path, err := syscall.BytePtrFromString(source)
	if err != nil {
		return -1, err
	}
	tree, _, e := syscall.Syscall(sysOpenTree, uintptr(at), uintptr(unsafe.Pointer(path)),
		openTreeClone|atRecursive|syscall.O_CLOEXEC)
	if e != 0 {
		return -1, e
	}
	return int(tree), nil
}

// Bind shows the source at the opened target. Its attributes hold before it can be seen.
func (s *Source) Bind(target int, attributes uint64) error {
	defer syscall.Close(s.sub)
	if s.fd >= 0 {
		err := SetAttributes(s.fd, attributes)
		if err == nil {
			err = Attach(s.fd, target)
		}
		_ = syscall.Close(s.fd)
		if s.mapped || err != syscall.ENOSYS && err != syscall.EPERM {
			return err
		}
	}
	if attributes&^ReadOnly != 0 {
		return syscall.ENOSYS
	}
	return bindClassic(s.path, "/proc/self/fd/"+itoa(target), attributes != 0)
}

// SetAttributes adds attributes to all mounts of a copy.
func SetAttributes(tree int, attributes uint64) error {
	if attributes == 0 {
		return nil
	}
	return setAttributes(tree, mountAttr{set: attributes}, atRecursive)
}

// Seal makes one mount read-only.
func Seal(mount int) error { return setAttributes(mount, mountAttr{set: ReadOnly}, 0) }

func setAttributes(tree int, attr mountAttr, flags uintptr) error {
	empty := [1]byte{}
	_, _, e := syscall.Syscall6(sysMountSetattr, uintptr(tree), uintptr(unsafe.Pointer(&empty)), AtEmptyPath|flags,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if e != 0 {
		return e
	}
	return nil
}

// Attach shows a copy, or a new mount, at the opened target. The descriptor of the copy is that of the mount then.
func Attach(tree, target int) error {
	empty := [1]byte{}
	_, _, e := syscall.Syscall6(sysMoveMount, uintptr(tree), uintptr(unsafe.Pointer(&empty)), uintptr(target),
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

func failed(again bool, text string) *frame.Failed { return &frame.Failed{Again: again, Text: text} }

func itoa(fd int) string {
	if fd < 10 {
		return string(rune('0' + fd))
	}
	return itoa(fd/10) + string(rune('0'+fd%10))
}
