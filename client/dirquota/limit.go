package dirquota

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Kind is how a file system limits directories.
type Kind string

// The kinds; None is that of directories without a limit.
const (
	None    Kind = ""
	Project Kind = "project"
	Btrfs   Kind = "btrfs"
)

// ErrPlain is the error of a directory that was not made with [Kind.Make], or before its file system could limit it.
var ErrPlain = errors.New("the directory was made without a limit")

// Usage is what is counted for a directory, in bytes.
type Usage struct {
	Used int64
	// Limit is 0 when there is none.
	Limit int64
}

// full is the free space below the limit from which on a directory is not full.
const full = 64 << 10

// Full reports whether the limit is reached.
func (u Usage) Full() bool { return u.Limit > 0 && u.Used > u.Limit-full }

// Detect returns how the file system of a directory limits directories. An error is the reason why it does not.
func Detect(dir string) (Kind, error) {
	fd, err := open(dir)
	if err != nil {
		return None, fmt.Errorf("look for quotas: %w", err)
	}
	defer unix.Close(fd)
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return None, fmt.Errorf("look for quotas of %s: %w", dir, err)
	}
	kind := None
	switch st.Type {
	case unix.BTRFS_SUPER_MAGIC:
		kind, err = Btrfs, quotasEnabled(fd, dir)
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC:
		kind, err = Project, projectsLimited(fd, dir)
	default:
		err = fault.New(fault.Unimplemented, "the file system of %s (type %#x) has no quotas of directories: use ext4, xfs or btrfs", dir, st.Type)
	}
	if err != nil {
		return None, err
	}
	return kind, nil
}

// Make makes a directory that can be limited. One that exists is kept; it can be limited when it is empty or was made so.
func (k Kind) Make(path string, perm fs.FileMode) error {
	if k == Btrfs {
		return makeSubvolume(path, perm)
	}
	if err := os.Mkdir(path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if k == Project {
		return makeProject(path)
	}
	return nil
}

// Of returns how a directory can be limited; None when it was not made for that.
func Of(path string) (Kind, error) {
	d, err := find(path)
	if err != nil {
		return None, err
	}
	defer d.close()
	return d.kind, nil
}

// Set sets the limit of a directory; 0 removes it.
func Set(path string, bytes int64) error {
	d, err := find(path)
	if err != nil {
		return err
	}
	defer d.close()
	switch d.kind {
	case Project:
		err = setProject(d.fd, d.id, bytes)
	case Btrfs:
		err = setGroup(d.fd, bytes)
	default:
		return ErrPlain
	}
	if err != nil {
		return fmt.Errorf("limit the size of %s: %w", path, err)
	}
	return nil
}

// Read returns what is counted for a directory.
func Read(path string) (u Usage, err error) {
	d, err := find(path)
	if err != nil {
		return u, err
	}
	defer d.close()
	switch d.kind {
	case Project:
		u, err = readProject(d.fd, d.id)
	case Btrfs:
		u, err = readGroup(d.fd)
	default:
		return u, ErrPlain
	}
	if err != nil {
		return u, fmt.Errorf("read the size of %s: %w", path, err)
	}
	return u, nil
}

// Lift removes the limit of a directory that is about to be removed. The caller calls removed afterwards. A directory
// without a limit is no error.
func Lift(path string) (removed func(), err error) {
	removed = func() {}
	d, err := find(path)
	if errors.Is(err, fs.ErrNotExist) {
		return removed, nil
	}
	if err != nil {
		return removed, err
	}
	defer d.close()
	switch d.kind {
	case Project:
		err = setProject(d.fd, d.id, 0)
	case Btrfs:
		id, failed := subvolume(d.fd)
		if failed == nil {
			failed = setGroup(d.fd, 0)
		}
		err = failed
		removed = func() { removeGroup(filepath.Dir(path), id) }
	}
	if errors.Is(err, errOff) { // nothing is limited any more
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("lift the limit of %s: %w", path, err)
	}
	return removed, err
}

// errOff is the error of a file system whose quotas are off.
var errOff = errors.New("the quotas of the file system are off")

// directory is an open directory, and how it is limited.
type directory struct {
	fd   int
	kind Kind
	// id is the project id.
	id uint32
}

func (d directory) close() { _ = unix.Close(d.fd) }

// find opens a directory and finds out how it is limited.
func find(path string) (d directory, err error) {
	if d.fd, err = open(path); err != nil {
		return d, err
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(d.fd, &st); err != nil {
		d.close()
		return d, err
	}
	switch st.Type {
	case unix.BTRFS_SUPER_MAGIC:
		var s unix.Stat_t
		if err := unix.Fstat(d.fd, &s); err == nil && s.Ino == subvolumeRoot {
			d.kind = Btrfs
		}
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC:
		if a, err := attributes(d.fd); err == nil && a.ours() {
			d.kind, d.id = Project, a.project
		}
	}
	return d, nil
}

func open(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}
