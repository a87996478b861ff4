package spec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/driver/idmap"
)

// bindPath opens a path below root, as far as how permits, binds it in the stage and returns the path there. The bind has the
// owners that the user namespace at the path userNS maps to, or, when it is empty, those of its files.
func (s *Spec) bindPath(root, rel, userNS string, how uint64) (string, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, rel, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: how})
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	target := filepath.Join(s.stage, strconv.Itoa(s.staged))
	if err := makeTarget(fd, target); err != nil {
		return "", fmt.Errorf("bind a checked path: %w", err)
	}
	s.staged++
	// Not recursive: to unmount a bind that is shared with its source would unmount what lies below the source.
	if userNS != "" {
		err = idmap.Bind(fd, target, userNS)
	} else {
		err = unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), target, "", unix.MS_BIND, "")
	}
	if err != nil {
		return "", fmt.Errorf("bind a checked path: %w", err)
	}
	return target, nil
}

// makeTarget makes the place for a bind: a directory for a directory, else a file.
func makeTarget(fd int, target string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return os.MkdirAll(target, 0o700)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	return os.WriteFile(target, nil, 0o600)
}

// unstage unmounts and removes the binds of one container. Nothing below a bind is removed: a directory that is still
// mounted is not empty or busy.
func unstage(stage string) error {
	entries, err := os.ReadDir(stage)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(stage, e.Name())
		for err = nil; err == nil; { // until nothing is mounted there any more
			err = unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
		if !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", path, err))
			continue
		}
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(append(errs, os.Remove(stage))...)
}

// Sweep removes the binds that an earlier agent has left: the directories in parent but for those in use.
func Sweep(parent string, used func(name string) bool) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	var errs []error
	for _, e := range entries {
		if !used(e.Name()) {
			errs = append(errs, unstage(filepath.Join(parent, e.Name())))
		}
	}
	return errors.Join(errs...)
}
