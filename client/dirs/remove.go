package dirs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Remove removes the allocation's directory as [Remove] does.
func (a Alloc) Remove() error { return Remove(a.dir) }

// Remove removes a directory. It stops at the first mount point, with an error of class Conflict; nothing
// behind a mount point is touched. A missing directory is no error.
func Remove(dir string) error {
	parent, err := unix.Open(filepath.Dir(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	defer unix.Close(parent)
	return removeAt(parent, filepath.Base(dir), dir)
}

// removeAt removes one entry of the open directory; path is its name for people.
func removeAt(dir int, name, path string) error {
	err := unix.Unlinkat(dir, name, 0)
	switch {
	case err == nil || errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY):
		return mounted(path)
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
		return fmt.Errorf("remove %s: %w", path, err)
	}
	if err := empty(dir, name, path); err != nil {
		return err
	}
	err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	switch {
	case err == nil || errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY):
		return mounted(path)
	}
	return fmt.Errorf("remove %s: %w", path, err)
}

// empty removes what is in the directory.
func empty(dir int, name, path string) error {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: beneath,
	})
	switch {
	case errors.Is(err, unix.EXDEV):
		return mounted(path)
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("remove %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	for _, n := range names {
		if err := removeAt(fd, n, filepath.Join(path, n)); err != nil {
			return err
		}
	}
	return nil
}

func mounted(path string) error {
	return fault.New(fault.Conflict, "%s is a mount point and is not removed", path)
}
