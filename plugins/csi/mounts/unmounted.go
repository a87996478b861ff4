package mounts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// OpenUnmounted opens what lies at a path; what is mounted there is an error of class [ErrMounted], a link is one too. flags are
// those of open(2).
func OpenUnmounted(path string, flags int) (*os.File, error) {
	path = filepath.Clean(path)
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", filepath.Dir(path), err)
	}
	defer unix.Close(dir)
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat2(dir, filepath.Base(path), &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_XDEV})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before Linux 5.6, or below a filter of system calls
		var on bool
		if on, err = IsPoint(path); err == nil && on {
			err = unix.EXDEV
		}
		if err == nil {
			fd, err = unix.Openat(dir, filepath.Base(path), flags, 0)
		}
	}
	switch {
	case errors.Is(err, unix.EXDEV):
		return nil, fmt.Errorf("open %s: %w", path, ErrMounted)
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// OpenUnmountedTree opens a directory with all that is below it as its file system has it: what is, or will be, mounted at the
// directory or inside of it is not seen, what that covers is. Who may not do that gets the directory as it is when nothing
// is mounted there, else an error of class [ErrMounted].
func OpenUnmountedTree(dir string) (*os.Root, error) {
	f, err := OpenUnmounted(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	view, err := unix.OpenTree(int(f.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err == nil {
		defer unix.Close(view)
		// Mounts of a peer would appear in it.
		err = unix.MountSetattr(view, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Propagation: unix.MS_PRIVATE})
	}
	switch {
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM):
		inside, err := Below(dir)
		if err != nil {
			return nil, err
		}
		if len(inside) > 0 {
			return nil, fmt.Errorf("open %s without what is in it at %s: %w", dir, inside[0].Point, ErrMounted)
		}
		view = int(f.Fd())
	case err != nil:
		return nil, fmt.Errorf("look at %s without what is mounted in it: %w", dir, err)
	}
	return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(view))
}
