package dirs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
)

// madePrefix begins the names of directories that are not ready yet. They lie in the directory of the allocation,
// which only root can write to, and are moved to their places when they have their owners and modes.
const madePrefix = ".made-"

// entry is a directory to make.
type entry struct {
	name string
	mode uint32
	// own is set when the directory stays the agent's; else it is everybody's.
	own bool
	sub []entry
}

var sharedEntry = entry{sharedName, 0o777 | unix.S_ISVTX, true, []entry{
	{name: dataName, mode: 0o777}, {name: logsName, mode: 0o777 | unix.S_ISVTX, own: true}, {name: tmpName, mode: 0o777 | unix.S_ISVTX},
}}

func taskEntry(name string) entry {
	return entry{name: name, mode: 0o777, sub: []entry{
		{name: localName, mode: 0o777}, {name: secretsName, mode: 0o777}, {name: tmpName, mode: 0o777 | unix.S_ISVTX},
	}}
}

// Unwritable reports whether an error is that of a disk which takes nothing now: it is full, or went read-only.
func Unwritable(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EIO)
}

// Build makes the directory of the allocation and what its tasks share; what exists is kept.
func (a Alloc) Build() error {
	if err := os.MkdirAll(filepath.Dir(a.dir), 0o711); err != nil {
		return fmt.Errorf("make directory of allocations: %w", err)
	}
	if err := a.quota.Make(a.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory of allocation: %w", err)
	}
	return a.make(sharedEntry)
}

// BuildTask makes the directories of one task; what exists is kept.
func (a Alloc) BuildTask(name string) error {
	if !element(name) || name == sharedName || strings.HasPrefix(name, madePrefix) {
		return fault.New(fault.Invalid, "task name %q cannot name a directory", name)
	}
	return a.make(taskEntry(name))
}

// make makes what is missing of an entry of the allocation's directory. Tasks may write to the entry, and put links
// and other things where its parts are to be.
func (a Alloc) make(e entry) error {
	own, err := openDir(unix.AT_FDCWD, a.dir)
	if err != nil {
		return fmt.Errorf("make directory of allocation: %w", err)
	}
	defer unix.Close(own)
	at, err := openDir(own, e.name)
	if errors.Is(err, unix.ENOENT) {
		return place(own, own, e)
	}
	if err != nil {
		return fmt.Errorf("make directory %s of allocation: %w", e.name, err)
	}
	defer unix.Close(at)
	var errs []error
	for _, sub := range e.sub {
		var st unix.Stat_t
		if errors.Is(unix.Fstatat(at, sub.name, &st, unix.AT_SYMLINK_NOFOLLOW), unix.ENOENT) {
			errs = append(errs, place(own, at, sub))
		}
	}
	return errors.Join(errs...)
}

// place makes a directory in own, under a name of its own, and moves it into the directory at. When something came
// into being there meanwhile, that is kept.
func place(own, at int, e entry) error {
	made := madePrefix + rand.Text()
	err := fill(own, made, e)
	if err == nil {
		err = unix.Renameat(own, made, at, e.name)
	}
	if err == nil {
		return nil
	}
	for _, sub := range e.sub {
		_ = unix.Unlinkat(own, made+"/"+sub.name, unix.AT_REMOVEDIR)
	}
	_ = unix.Unlinkat(own, made, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EBUSY) {
		return nil
	}
	return fmt.Errorf("make directory %s of allocation: %w", e.name, err)
}

// fill makes the directory name with all its parts. No other user can enter it before it is ready, so its content can
// be changed by name.
func fill(at int, name string, e entry) error {
	if err := unix.Mkdirat(at, name, 0o700); err != nil {
		return err
	}
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, sub := range e.sub {
		if err := part(fd, sub); err != nil {
			return err
		}
	}
	if e.given() {
		if err := unix.Fchown(fd, nobody, nobody); err != nil {
			return fmt.Errorf("set the owner of the directory: %w", err)
		}
	}
	return unix.Fchmod(fd, e.mode)
}

// part makes a directory without parts in one that only the agent can enter.
func part(at int, e entry) error {
	if err := unix.Mkdirat(at, e.name, 0o700); err != nil {
		return err
	}
	if e.given() {
		if err := unix.Fchownat(at, e.name, nobody, nobody, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("set the owner of the directory: %w", err)
		}
	}
	return unix.Fchmodat(at, e.name, e.mode, 0)
}

// given reports whether the directory becomes everybody's.
func (e entry) given() bool { return !e.own && os.Geteuid() == 0 }

// openDir opens a directory as a place to start from; the last element of name is not followed.
func openDir(at int, name string) (int, error) {
	return unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// OpenLogs opens the directory of the log files; it follows no links, which tasks may have made. An error of class
// fault.NotFound means that there is none.
func (a Alloc) OpenLogs() (*os.File, error) {
	base, err := openDir(unix.AT_FDCWD, a.dir)
	if err != nil {
		return nil, said(logsName, err)
	}
	defer unix.Close(base)
	fd, err := unix.Openat2(base, filepath.Join(sharedName, logsName), &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: beneath,
	})
	if err != nil {
		return nil, said(logsName, err)
	}
	return os.NewFile(uintptr(fd), logsName), nil
}

// beneath keeps a path below the directory that it starts from, on its file system, and without links.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV
