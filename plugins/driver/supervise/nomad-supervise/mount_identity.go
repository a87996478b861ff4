package main

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/bind"
)

const (
	// Bits of the statx request and of its result; statxUnique is known since Linux 6.8.
	statxMount      = 0x1000
	statxUnique     = 0x4000
	attributeOfRoot = 0x2000

	// Offsets in the result: the mask of valid fields, the attributes, and the number of the mount.
	statxHolds, statxAttributes, statxNumber = 0, 8, 144
)

// number identifies a mount: permanently when it is unique, else as long as it is mounted. An id of 0 is not known.
type number struct {
	id     uint64
	unique bool
	// root is set for what a mount shows, not for what is inside of it.
	root bool
	// inTable is the number in the mount table, which is given again; 0 when it was not asked for.
	inTable uint64
}

// numberAt asks for the mount of an open file, with an empty path, or at an absolute path. A file system that hangs may
// hold it up.
func numberAt(fd int, path string, ask uintptr) (n number) {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return n
	}
	flags := uintptr(statxDontSync | statxNoFollow)
	if path == "" {
		flags |= bind.AtEmptyPath
	}
	var x [256]byte
	_, _, e := syscall.Syscall6(sysStatx, uintptr(fd), uintptr(unsafe.Pointer(name)), flags, ask, uintptr(unsafe.Pointer(&x[0])), 0)
	if e != 0 {
		return n
	}
	holds := *(*uint32)(unsafe.Pointer(&x[statxHolds]))
	if n.unique = holds&statxUnique != 0; n.unique || holds&statxMount != 0 {
		n.id = *(*uint64)(unsafe.Pointer(&x[statxNumber]))
	}
	n.root = *(*uint64)(unsafe.Pointer(&x[statxAttributes]))&attributeOfRoot != 0
	return n
}

// look records the mounts that the lease is about: those that exist while the servers are heard. Later ones at the
// same paths belong to others, who have leases of their own. The lease does not wait for it, because some file systems
// may block it all the same.
func (l *lease) look() {
	if l.stop <= 0 {
		return
	}
	if l.seen == nil {
		l.seen = &sight{}
	}
	if l.seen.looking.CompareAndSwap(false, true) {
		go l.seen.look(l.unmount)
	}
}

// sight is what was mounted at the paths of a lease when it was renewed last; looking is set while look runs.
type sight struct {
	mounts  atomic.Pointer[[]number]
	looking atomic.Bool
}

func (s *sight) look(paths []string) {
	now := make([]number, len(paths))
	if before := s.mounts.Load(); before != nil {
		copy(now, *before)
	}
	for i, p := range paths {
		if n := numberAt(bind.AtCwd, p, statxMount|statxUnique); n.root {
			n.inTable = numberAt(bind.AtCwd, p, statxMount).id
			now[i] = n
		}
	}
	s.mounts.Store(&now)
	s.looking.Store(false)
}

// was is the mount at a path when the lease was renewed last; it is not known before the first look.
func (l *lease) was(path string) (n number) {
	if l.seen == nil {
		return n
	}
	mounts := l.seen.mounts.Load()
	for i, p := range l.unmount {
		if mounts != nil && p == path {
			return (*mounts)[i]
		}
	}
	return n
}

// owned reports whether a mount at one of the paths is one that the lease is about, or may be.
func (l *lease) owned(path string, now number) bool {
	was := l.was(path)
	switch {
	case was.id == 0 || now.id == 0 || was.unique != now.unique:
		return true
	case now.unique: // earlier ones are below it
		return now.id <= was.id
	}
	return now.id == was.id
}

// holds reports whether what is mounted at a path is what the lease is about, or may be.
func (l *lease) holds(path string) bool {
	return l.owned(path, numberAt(bind.AtCwd, path, statxMount|statxUnique))
}

// listedAs reports whether a line of the mount table is about what the lease is about, or may be: numbers are given again.
func (l *lease) listedAs(id, path string) bool {
	was := l.was(path).inTable
	return was == 0 || id == itoa(int64(was))
}
