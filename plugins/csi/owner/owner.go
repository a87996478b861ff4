package owner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// depthMax bounds how deep a volume is walked: each level holds a descriptor.
const depthMax = 512

// keep makes the kernel leave an id.
const keep = -1

// beneath opens one name of a directory, and nothing else.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV

// Apply gives the file system at root to its owner by the policy. Files below the root get the ids only, and before
// the root does, so that an interrupted walk is repeated. keepGroup leaves the group to the driver. seen counts the
// visited files; it may be nil.
func Apply(ctx context.Context, root string, o *api.VolumeOwner, keepGroup bool, seen *atomic.Int64) error {
	if o == nil || o.Policy == api.OwnerNever {
		return nil
	}
	mode, err := modeOf(o)
	if err != nil {
		return err
	}
	if seen == nil {
		seen = new(atomic.Int64)
	}
	want := walk{ids{o.UID, o.GID}, seen}
	if keepGroup {
		want.gid = keep
	}
	return bounded(ctx, "give "+root+" to its owner", func() error {
		dir, err := os.OpenFile(root, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer dir.Close()
		fd := int(dir.Fd())
		has, err := stat(fd)
		if err != nil {
			return err
		}
		if o.Policy == api.OwnerAlways || !want.fit(has) {
			if err := want.below(ctx, dir, 0); err != nil {
				return err
			}
			if err := want.give(fd, has); err != nil {
				return err
			}
		}
		return chmod(fd, mode)
	})
}

// modeOf reads the mode; keep means that none is named.
func modeOf(o *api.VolumeOwner) (int, error) {
	if o.Mode == "" {
		return keep, nil
	}
	m, err := strconv.ParseUint(o.Mode, 8, 32)
	if err != nil || m > 0o7777 {
		return 0, fault.New(fault.Invalid, "owner.mode %q of the volume is not octal", o.Mode)
	}
	return int(m), nil
}

func chmod(fd, mode int) error {
	if mode == keep {
		return nil
	}
	has, err := stat(fd)
	if err != nil || int(has.Mode)&0o7777 == mode {
		return err
	}
	if err := unix.Fchmod(fd, uint32(mode)); err != nil {
		return fmt.Errorf("change mode: %w", err)
	}
	return nil
}

func stat(fd int) (*unix.Stat_t, error) {
	st := &unix.Stat_t{}
	return st, unix.Fstat(fd, st)
}

type ids struct{ uid, gid int }

// walk gives everything below a directory to its owner.
type walk struct {
	ids
	seen *atomic.Int64
}

func (w ids) fit(st *unix.Stat_t) bool {
	return (w.uid == keep || uint32(w.uid) == st.Uid) && (w.gid == keep || uint32(w.gid) == st.Gid)
}

// give changes what the descriptor stands for, be it a link.
func (w ids) give(fd int, has *unix.Stat_t) error {
	if w.fit(has) {
		return nil
	}
	if err := unix.Fchownat(fd, "", w.uid, w.gid, unix.AT_EMPTY_PATH); err != nil {
		return fmt.Errorf("change owner: %w", err)
	}
	return nil
}

// below gives away everything in the directory.
func (w walk) below(ctx context.Context, dir *os.File, depth int) error {
	if depth == depthMax {
		return fault.New(fault.Invalid, `%s is more than %d directories deep: use policy = "never"`, dir.Name(), depthMax)
	}
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := w.entry(ctx, dir, name, depth); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (w walk) entry(ctx context.Context, dir *os.File, name string, depth int) error {
	fd, err := open(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	w.seen.Add(1)
	has, err := stat(fd)
	if err != nil {
		return err
	}
	if has.Mode&unix.S_IFMT == unix.S_IFDIR {
		inner, err := open(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(inner), name)
		err = w.below(ctx, f, depth+1)
		f.Close()
		if err != nil {
			return err
		}
	}
	return w.give(fd, has)
}

func open(at int, name string, flags uint64) (int, error) {
	// A link itself can be opened although links are not followed: O_PATH with O_NOFOLLOW stops at it.
	for {
		fd, err := unix.Openat2(at, name, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: beneath})
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}

// bounded does something on a file system that may hang.
func bounded(ctx context.Context, what string, action func() error) error {
	done := make(chan error, 1)
	go func() { done <- action() }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL):
		return fault.New(fault.Invalid, `%s: %w; a file system that keeps no owners needs policy = "never"`, what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
