package mounts

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stackedMax is how many mounts on top of each other Unmount removes.
const stackedMax = 8

// Unmount removes the mounts at path that are there when it begins, never lazily. A path without mount is success. A busy
// mount is tried again for a short time. One that comes meanwhile stays, and is an error: the kernel may take long over an
// unmount, and what was mounted since is in use.
func Unmount(path string) error {
	old, err := uniqueStack(path)
	if err != nil {
		old, err = tableStack(path)
	}
	if err != nil {
		return err
	}
	return old.unmount(path, unmountAt)
}

func (s *stack) unmount(path string, once func(path string) error) error {
	for range stackedMax {
		for try := range busyTries {
			on, err := s.top(path)
			if err != nil {
				return fmt.Errorf("unmount %s: %w", path, err)
			}
			if !on {
				return nil
			}
			if err = once(path); err == nil {
				delete(s.ids, s.at) // its number may be given again
				break
			}
			if !errors.Is(err, unix.EBUSY) || try == busyTries-1 {
				return fmt.Errorf("unmount %s: %w", path, err)
			}
			time.Sleep(time.Duration(try+1) * busyPause)
		}
	}
	if on, err := IsPoint(path); err != nil || on {
		return errors.Join(err, fmt.Errorf("unmount %s: more than %d mounts on top of each other", path, stackedMax))
	}
	return nil
}

const (
	busyTries = 10
	busyPause = 5 * time.Millisecond
)

func unmountAt(path string) error {
	err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// errNewer reports a mount that was not there before.
var errNewer = errors.New("something was mounted there meanwhile")

// stack knows the mounts at a path as they were: by the numbers of the mount table, or, which costs less, by the highest
// of the numbers that the kernel never gives twice.
type stack struct {
	ids     map[int]bool
	at      int // the topmost of them
	highest uint64
}

func uniqueStack(path string) (*stack, error) {
	id, err := uniqueID(path)
	return &stack{highest: id}, err
}

func tableStack(path string) (*stack, error) {
	path = resolve(path)
	found, err := read(func(p string) bool { return p == path })
	if err != nil {
		return nil, err
	}
	s := &stack{ids: map[int]bool{}}
	for _, e := range found {
		s.ids[e.ID] = true
	}
	return s, nil
}

// top reports whether one of the mounts is the topmost at path.
func (s *stack) top(path string) (bool, error) {
	if s.ids == nil {
		switch id, err := uniqueID(path); {
		case err != nil:
			return false, err
		case id > s.highest:
			return false, errNewer
		default:
			return id != 0, nil
		}
	}
	if on, err := IsPoint(path); err != nil || !on {
		return false, err
	}
	e, err := At(path)
	switch {
	case err != nil || e == nil:
		return false, err
	case !s.ids[e.ID]:
		return false, errNewer
	}
	s.at = e.ID
	return true, nil
}

// uniqueID is the number of the topmost mount at path, 0 where there is none. Those of later mounts are higher.
func uniqueID(path string) (uint64, error) {
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID_UNIQUE, &x)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR):
		return 0, nil
	case err != nil:
		return 0, err
	case x.Mask&unix.STATX_MNT_ID_UNIQUE == 0 || x.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return 0, unix.ENOTSUP
	case x.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return 0, nil
	}
	return x.Mnt_id, nil
}

// Before reports whether e was at the path of the other mount before that one was; seen is the table of then, for kernels
// that give numbers again.
func (e *Entry) Before(o *Entry, seen List) bool {
	if e.Unique != 0 && o.Unique != 0 {
		return e.Unique < o.Unique
	}
	for _, was := range seen {
		if was.ID == e.ID && was.Point == e.Point && was.Same(e) {
			return true
		}
	}
	return false
}

// Remove removes the mount, never lazily. One that no longer exists is a success. Another one at its path stays; it is an error when
// this one is, or may be, below it. A busy one is tried again for a short time.
func Remove(m *Entry) error {
	for try := range busyTries {
		fd, err := m.hold()
		if err != nil || fd < 0 {
			return err
		}
		unix.Close(fd) // it would keep the mount busy
		if err = unmountAt(m.Point); err == nil {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || try == busyTries-1 {
			return fmt.Errorf("unmount %s: %w", m.Point, err)
		}
		time.Sleep(time.Duration(try+1) * busyPause)
	}
	return nil
}

// Detach removes the mount lazily: it leaves its path at once, and ends when no process uses it any more. It is for
// mounts that cannot be removed otherwise. Nothing is forced: that would end the file system wherever else it is mounted.
// One that no longer exists is a success. Another one at its path stays; it is an error when this one is, or may be, below it.
func Detach(m *Entry) error { return m.through(unix.MNT_DETACH) }

// Abort makes the file system fail what waits for it (MNT_FORCE), wherever it is mounted. The mount stays.
func Abort(m *Entry) error {
	err := m.through(unix.MNT_FORCE)
	if errors.Is(err, unix.EBUSY) { // held by the descriptor
		return nil
	}
	return err
}

// through unmounts what a descriptor holds: nothing else can be there by then.
func (e *Entry) through(flags int) error {
	fd, err := e.hold()
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	err = unix.Unmount("/proc/self/fd/"+strconv.Itoa(fd), flags)
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("unmount %s: %w", e.Point, err)
}

// hold opens the mount, without asking its file system. The descriptor is -1 when the mount has left its path.
func (e *Entry) hold() (fd int, err error) {
	fd, err = unix.Open(e.Point, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR):
		return -1, nil
	case err != nil:
		return -1, fmt.Errorf("open the mount at %s: %w", e.Point, err)
	}
	is, err := e.isAt(fd)
	if err != nil || !is {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// isAt reports whether the mount is what an open descriptor of its path shows; false means that it no longer exists. A mount that
// is there, and another one shown, is an error.
func (e *Entry) isAt(fd int) (bool, error) {
	// The number of the table belongs to this mount for as long as it is open.
	number, err := tableID(fd)
	if err != nil {
		return false, err
	}
	if e.Unique != 0 {
		switch known, _, err := numbersOf(e.Unique); {
		case errors.Is(err, unix.ENOENT):
			return false, nil
		case err == nil && known == number:
			return true, nil
		case err == nil:
			return false, fmt.Errorf("%s: %w", e.Point, errNewer)
		}
	}
	top, err := topAt(e.Point)
	switch {
	case err != nil || top == nil:
		return false, err
	case top.ID != number || top.ID != e.ID || !top.Same(e):
		return false, fmt.Errorf("%s: %w", e.Point, errNewer)
	}
	return true, nil
}

// tableID is the number that the mount table has for the mount of an open file.
func tableID(fd int) (int, error) {
	raw, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, fmt.Errorf("find the mount of an open file: %w", err)
	}
	_, rest, _ := strings.Cut(string(raw), "mnt_id:")
	line, _, _ := strings.Cut(rest, "\n")
	id, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0, fmt.Errorf("find the mount of an open file: %w", err)
	}
	return id, nil
}
