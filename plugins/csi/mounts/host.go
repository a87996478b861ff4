package mounts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Host is the mount table, the directories and the devices of one host, as far as volumes need them. [System]
// is the machine that the program runs on; package mountstest keeps one in memory.
//
// A path that may be a dead mount is never stat'ed by any method but Statfs, which may block for as long as
// the file system does.
type Host interface {
	// Table returns the mount table in the order in which the mounts were made.
	Table() (List, error)
	// Below returns the mounts at dir and inside it.
	Below(dir string) (List, error)
	// At returns the topmost mount at exactly this path, nil when there is none.
	At(path string) (*Entry, error)
	// Tops returns the topmost mounts at those of the paths that are mounts, and the whole table: one look for many paths.
	Tops(paths []string) (top map[string]*Entry, all List, err error)
	// IsPoint reports whether path is a mount. A missing path is none.
	IsPoint(path string) (bool, error)
	// IsDevice reports whether path is a block device.
	IsDevice(path string) bool
	// Devices returns the block device nodes that are at root/*/*/dir/*. It does not access anything below a mount
	// there.
	Devices(root, dir string) ([]string, error)
	// Elsewhere returns the id of a process in another mount namespace that has files of the mount; 0 when there is none.
	Elsewhere(m *Entry) (pid int, err error)
	// Watch calls changed after each change of the mount table until ctx ends.
	Watch(ctx context.Context, changed func()) error
	// Bind shows source at target, which must exist.
	Bind(source, target string, f Flags) error
	// Restrict adds restrictions to the mount at path.
	Restrict(path string, f Flags) error
	// Unmount removes the mounts at path that are there when it begins, never lazily. A path without mount is success.
	Unmount(path string) error
	// Remove removes the mount, never lazily. For it and the next methods a mount is what [Host.At] has shown: one that
	// no longer exists is a success, another one at its path is left alone.
	Remove(m *Entry) error
	// Detach removes the mount lazily. Other mounts of its file system stay.
	Detach(m *Entry) error
	// Abort makes the file system fail what waits for it (MNT_FORCE), wherever it is mounted. The mount stays.
	Abort(m *Entry) error
	// Sync writes the data of the file system back. It may block indefinitely.
	Sync(m *Entry) error
	// ShutDown ends the file system, wherever it is mounted: what is in its page cache never reaches the storage. Not
	// all types can do that.
	ShutDown(m *Entry) error
	// Share makes mounts below dir visible to mounts that were copied from it.
	Share(dir string) error
	// Statfs asks the file system at path for a sign of life. It may block indefinitely.
	Statfs(path string) error
	// Root accesses the directory that a mount shows. A file system that was shut down refuses that with EIO, while
	// Statfs succeeds. Root may block indefinitely.
	Root(m *Entry) error
	// MakeDir makes a directory and its parents unless path is a mount, which is left alone.
	MakeDir(path string) error
	// RemoveLeaf removes a file or an empty directory; a missing one is success. A mount is an error of class
	// [ErrMounted].
	RemoveLeaf(path string) error
	// Resolve returns path without symbolic links, as the mount table shows it; an absent path as it is.
	Resolve(path string) string
	// BootID identifies the boot of the host; empty when it is unknown.
	BootID() string
	// Uptime is how long ago that was; the time in which the host sleeps counts.
	Uptime() time.Duration
}

// ErrMounted reports that a path is still a mount.
var ErrMounted = errors.New("still mounted")

// System is the host that the program runs on.
type System struct{}

var _ Host = System{}

// Table implements [Host].
func (System) Table() (List, error) { return Table() }

// Below implements [Host].
func (System) Below(dir string) (List, error) { return Below(dir) }

// At implements [Host].
func (System) At(path string) (*Entry, error) { return At(path) }

// Tops implements [Host].
func (System) Tops(paths []string) (map[string]*Entry, List, error) { return Tops(paths) }

// IsPoint implements [Host].
func (System) IsPoint(path string) (bool, error) { return IsPoint(path) }

// Bind implements [Host].
func (System) Bind(source, target string, f Flags) error { return Bind(source, target, f) }

// Restrict implements [Host].
func (System) Restrict(path string, f Flags) error { return Restrict(path, f) }

// Unmount implements [Host].
func (System) Unmount(path string) error { return Unmount(path) }

// Remove implements [Host].
func (System) Remove(m *Entry) error { return Remove(m) }

// Detach implements [Host].
func (System) Detach(m *Entry) error { return Detach(m) }

// Abort implements [Host].
func (System) Abort(m *Entry) error { return Abort(m) }

// Share implements [Host].
func (System) Share(dir string) error { return Share(dir) }

// IsDevice implements [Host].
func (System) IsDevice(path string) bool {
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &x)
	return err == nil && uint32(x.Mode)&unix.S_IFMT == unix.S_IFBLK
}

// Devices implements [Host].
func (System) Devices(root, dir string) (out []string, err error) {
	at := []string{root}
	for range 2 {
		var below []string
		for _, d := range at {
			names, err := namesOf(d)
			if err != nil {
				return nil, err
			}
			for _, n := range names {
				if n.IsDir() {
					below = append(below, filepath.Join(d, n.Name()))
				}
			}
		}
		at = below
	}
	for _, d := range at {
		names, err := namesOf(filepath.Join(d, dir))
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if n.Type()&(fs.ModeDevice|fs.ModeCharDevice) == fs.ModeDevice {
				out = append(out, filepath.Join(d, dir, n.Name()))
			}
		}
	}
	return out, nil
}

// namesOf reads a directory; one that is not there, or is a file, has no names.
func namesOf(dir string) ([]fs.DirEntry, error) {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for device nodes: %w", err)
	}
	return names, nil
}

// Elsewhere implements [Host].
func (System) Elsewhere(m *Entry) (int, error) { return Elsewhere(m) }

// Watch implements [Host].
func (System) Watch(ctx context.Context, changed func()) error { return Watch(ctx, changed) }

// Sync implements [Host].
func (System) Sync(m *Entry) error {
	return m.onRoot(func(fd int) error { return unix.Syncfs(fd) })
}

// noFlush is FS_SHUTDOWN_FLAGS_NOLOGFLUSH, fsShutdown FS_IOC_SHUTDOWN of ext4, xfs and f2fs.
const (
	noFlush    = 2
	fsShutdown = 0x8004587d
)

// ShutDown implements [Host].
func (System) ShutDown(m *Entry) error {
	return m.onRoot(func(fd int) error { return unix.IoctlSetPointerInt(fd, fsShutdown, noFlush) })
}

// onRoot does something with the directory that a mount shows.
func (e *Entry) onRoot(do func(fd int) error) error {
	fd, err := unix.Open(e.Point, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", e.Point, err)
	}
	defer unix.Close(fd)
	if is, err := e.isAt(fd); err != nil || !is {
		return err
	}
	return do(fd)
}

// Statfs implements [Host].
func (System) Statfs(path string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return err
	}
	return nil
}

// Root implements [Host].
func (System) Root(m *Entry) error { return m.onRoot(unix.Fsync) }

// MakeDir implements [Host].
func (System) MakeDir(path string) error {
	if on, err := IsPoint(path); err != nil || on {
		return err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return nil
}

// RemoveLeaf implements [Host].
func (System) RemoveLeaf(path string) error {
	on, err := IsPoint(path)
	if err != nil {
		return err
	}
	if on {
		return fmt.Errorf("remove %s: %w", path, ErrMounted)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// Resolve implements [Host].
func (System) Resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Uptime implements [Host].
func (System) Uptime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// BootID implements [Host].
func (System) BootID() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}
