package owner

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/fileowner"
)

// dirMode is the mode of directories whose volume names none.
const dirMode = 0o755

// MakeDir makes sure that sub is a directory below root. What is missing is made with the owner's ids and
// mode, unless create is false. No part of sub may be a link, ".." or another mount.
func MakeDir(ctx context.Context, root, sub string, o *api.VolumeOwner, create bool) error {
	sub, err := Clean(sub)
	if err != nil {
		return err
	}
	ids, mode := ids{keep, keep}, dirMode
	if o != nil {
		ids.uid, ids.gid = o.UID, o.GID
		m, err := modeOf(o)
		if err != nil {
			return err
		}
		if m != keep {
			mode = m
		}
	}
	return bounded(ctx, fmt.Sprintf("sub_path %q", sub), func() error {
		at, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		for _, name := range strings.Split(sub, "/") {
			next, err := step(at, name, ids, mode, create)
			_ = unix.Close(at)
			if err != nil {
				return err
			}
			at = next
		}
		return unix.Close(at)
	})
}

// Of returns the user and the group of a directory of a volume: of its root when sub, which is clean, is empty.
func Of(ctx context.Context, root, sub string) (fileowner.Owner, error) {
	var st unix.Stat_t
	err := bounded(ctx, "owner of "+path.Join(root, sub), func() error {
		at, err := unix.Open(root, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(at)
		fd, err := open(at, path.Join(".", sub), unix.O_PATH|unix.O_NOFOLLOW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Fstat(fd, &st)
	})
	return fileowner.Owner{UID: st.Uid, GID: st.Gid}, err
}

// Clean is a sub path without superfluous parts; one that leaves the volume or names its root is refused.
func Clean(sub string) (string, error) {
	clean := path.Clean(sub)
	switch {
	case sub == "" || path.IsAbs(sub) || clean == "." || strings.ContainsRune(sub, 0):
		return "", fault.New(fault.Invalid, "sub_path %q does not name a directory relative to the volume's root", sub)
	}
	for _, part := range strings.Split(sub, "/") {
		if part == ".." {
			return "", fault.New(fault.Invalid, `sub_path %q contains "..": it must stay inside of the volume`, sub)
		}
	}
	return clean, nil
}

func step(at int, name string, w ids, mode int, create bool) (int, error) {
	fd, err := enter(at, name)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	if !create {
		return -1, fault.New(fault.NotFound, "directory %q is not on the volume, and cannot be made since it is mounted read-only", name)
	}
	switch err := unix.Mkdirat(at, name, 0o700); {
	case errors.Is(err, unix.EEXIST):
		return enter(at, name)
	case err != nil:
		return -1, fmt.Errorf("make directory %q: %w", name, err)
	}
	if fd, err = enter(at, name); err != nil {
		return -1, err
	}
	has, err := stat(fd)
	if err == nil {
		err = w.give(fd, has)
	}
	if err == nil {
		err = chmod(fd, mode)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func enter(at int, name string) (int, error) {
	fd, err := open(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR):
		return -1, fault.New(fault.Invalid, "%q is a symbolic link or file on the volume; only directories may be mounted", name)
	case errors.Is(err, unix.EXDEV):
		return -1, fault.New(fault.Invalid, "%q leads to another file system", name)
	}
	return fd, err
}
