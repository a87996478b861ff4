package dirs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/dirquota"
)

const dataName = "data"

// Names of the directories for data that comes from another node.
const (
	incomingName = madePrefix + "incoming"
	completeName = madePrefix + "complete"
)

// Incoming is where data of another node is written, below the directory of the allocation; it need not exist.
func (a Alloc) Incoming() Alloc { return Alloc{dir: filepath.Join(a.dir, incomingName)} }

// Complete returns what [Alloc.CompleteIncoming] made; found is set when it exists.
func (a Alloc) Complete() (complete Alloc, found bool, err error) {
	complete = Alloc{dir: filepath.Join(a.dir, completeName)}
	switch _, err = os.Lstat(complete.dir); {
	case errors.Is(err, fs.ErrNotExist):
		return complete, false, nil
	case err != nil:
		return complete, false, fmt.Errorf("find data of another node: %w", err)
	}
	return complete, true, nil
}

// CompleteIncoming marks the data in [Alloc.Incoming] as all that there is.
func (a Alloc) CompleteIncoming() error {
	if err := os.Rename(a.Incoming().dir, filepath.Join(a.dir, completeName)); err != nil {
		return fmt.Errorf("complete data of another node: %w", err)
	}
	own, err := os.Open(a.dir)
	if err != nil {
		return fmt.Errorf("complete data of another node: %w", err)
	}
	return errors.Join(own.Sync(), own.Close())
}

// RemoveIncoming removes what is left of data of another node.
func (a Alloc) RemoveIncoming() error {
	return errors.Join(Remove(a.Incoming().dir), Remove(filepath.Join(a.dir, completeName)))
}

// TakeData moves what outlives an allocation from another allocation, whose tasks have ended, into this one, which
// [Alloc.Build] has made: alloc/data, and local of each of the tasks. A directory that has content here already, or that
// the other allocation does not have, is left as it is; so a move that was interrupted can be repeated.
//
// A limit of the size of the other allocation is lifted: what was moved may still count there.
func (a Alloc) TakeData(from Alloc, tasks []string) error {
	errs := []error{a.takePart(from, sharedName, dataName)}
	for _, t := range tasks {
		if err := a.takeLocal(from, t); err != nil {
			errs = append(errs, fmt.Errorf("task %s: %w", t, err))
		}
	}
	if k, _ := dirquota.Of(from.dir); k != dirquota.None {
		_ = dirquota.Set(from.dir, 0)
	}
	return errors.Join(errs...)
}

func (a Alloc) takeLocal(from Alloc, task string) error {
	if err := a.BuildTask(task); err != nil {
		return err
	}
	return a.takePart(from, task, localName)
}

// takePart renames one directory. A rename replaces an empty directory and nothing else, and follows no links.
func (a Alloc) takePart(from Alloc, dir, name string) error {
	source, err := openOwn(from.dir, dir)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(source)
	var st unix.Stat_t
	err = unix.Fstatat(source, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) || err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	if err != nil {
		return err
	}
	target, err := openOwn(a.dir, dir)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	err = unix.Renameat(source, name, target, name)
	if errors.Is(err, unix.EXDEV) {
		err = a.carry(from, dir, name, source, target)
	}
	switch {
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil
	case err != nil:
		return fmt.Errorf("move %s/%s: %w", dir, name, err)
	}
	return errors.Join(unix.Fsync(target), unix.Fsync(source))
}

// openOwn opens a directory in that of an allocation, which only the agent can replace; unlike [openDir] for what needs more
// than a place to start from.
func openOwn(alloc, name string) (int, error) {
	own, err := openDir(unix.AT_FDCWD, alloc)
	if err != nil {
		return -1, err
	}
	defer unix.Close(own)
	return unix.Openat(own, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}
