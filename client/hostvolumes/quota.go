package hostvolumes

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// quota is the built-in plugin whose volumes have a size: each is an ext4 file system in a file of its own, <id>.img, which is
// allocated in full and mounted at <id>. The file is made as <id>.new and renamed when it is complete.
type quota struct{ dir string }

const (
	quotaMin = 4 << 20
	// slack is how much more than the size may fit.
	slack = 512 << 10
	// rounds is how often a file system is made until its free space is the size.
	rounds = 6
	// toolMax bounds a call of mkfs, mount or umount.
	toolMax = 30 * time.Second
)

// quotaWorks reports whether the node can make and mount file systems.
func quotaWorks() bool {
	_, noMkfs := exec.LookPath("mkfs.ext4")
	_, noMount := exec.LookPath("mount")
	_, noLoop := os.Stat("/dev/loop-control")
	return os.Geteuid() == 0 && noMkfs == nil && noMount == nil && noLoop == nil
}

func (p quota) paths(v *api.HostVolume) (image, mounted string) {
	return filepath.Join(p.dir, v.ID+".img"), filepath.Join(p.dir, v.ID)
}

func (p quota) create(ctx context.Context, v *api.HostVolume, _ bool) (made, error) {
	o, err := parameters(v, "mode", "uid", "gid")
	if err != nil {
		return made{}, err
	}
	size := max(v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes)
	switch {
	case size < quotaMin:
		return made{}, fault.New(fault.Invalid, "plugin quota needs capacity_min or capacity_max of at least %d bytes", quotaMin)
	case !quotaWorks():
		return made{}, fault.New(fault.Invalid, "plugin quota needs root, mkfs.ext4, mount and loop devices on the node")
	}
	if err := prepare(p.dir); err != nil {
		return made{}, err
	}
	image, mounted := p.paths(v)
	if err := os.Mkdir(mounted, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return made{}, fault.New(fault.Internal, "make the directory: %w", err)
	}
	if err := isDirectory(mounted); err != nil {
		return made{}, err
	}
	if st, err := os.Lstat(image); err == nil && !st.Mode().IsRegular() {
		return made{}, fault.New(fault.Conflict, "%s is not a file: remove it", image)
	}
	if here, err := mountinfo.Mounted(mounted); err != nil || here {
		return made{mounted, size}, err
	}
	if _, err := os.Stat(image); errors.Is(err, fs.ErrNotExist) {
		if err := p.format(ctx, image, mounted, size, o); err != nil {
			return made{}, err
		}
	}
	return made{mounted, size}, mount(ctx, image, mounted)
}

// format makes a file system in which exactly the size is free. How much a file system needs for itself depends on its size,
// so its free space is measured and the file made again with the difference.
func (p quota) format(ctx context.Context, image, mounted string, size int64, o owner) error {
	draft := strings.TrimSuffix(image, ".img") + ".new"
	defer os.Remove(draft)
	whole := size + size/32 + quotaMin
	for range rounds {
		if err := allocate(draft, whole); err != nil {
			return err
		}
		// Without a discard the blocks of the file stay allocated.
		if err := tool(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=0", draft); err != nil {
			return err
		}
		free, err := p.complete(ctx, draft, mounted, o)
		if err != nil {
			return err
		}
		if free >= size && free < size+slack {
			return os.Rename(draft, image)
		}
		whole += size + slack/2 - free
	}
	return fault.New(fault.Internal, "no ext4 file system has %d free bytes here: try another capacity", size)
}

// complete sets the owner of the root of a new file system, and returns how much is free in it.
func (p quota) complete(ctx context.Context, draft, mounted string, o owner) (free int64, err error) {
	if err := mount(ctx, draft, mounted); err != nil {
		return 0, err
	}
	// Databases refuse a directory that is not empty.
	err = os.Remove(filepath.Join(mounted, "lost+found"))
	if err == nil {
		err = o.apply(mounted)
	}
	var st unix.Statfs_t
	if err == nil {
		err = unix.Statfs(mounted, &st)
	}
	return int64(st.Bavail) * st.Bsize, errors.Join(err, unmount(context.WithoutCancel(ctx), mounted))
}

// allocate makes the file with all of its blocks, so that what is promised is there.
func allocate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fault.New(fault.Internal, "make the file of the volume: %w", err)
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = f.Truncate(size)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fault.New(fault.Exhausted, "allocate the %d bytes of the volume: %w", size, err)
	}
	return nil
}

func (p quota) remove(ctx context.Context, v *api.HostVolume) error {
	image, mounted := p.paths(v)
	here, err := mountinfo.Mounted(mounted)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if here {
		if err := unmount(ctx, mounted); err != nil {
			return err
		}
	}
	if err := os.Remove(mounted); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, path := range []string{image, strings.TrimSuffix(image, ".img") + ".new"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func mount(ctx context.Context, image, at string) error {
	return tool(ctx, "mount", "-t", "ext4", "-o", "loop,nosuid,nodev", image, at)
}

func unmount(ctx context.Context, at string) error { return tool(ctx, "umount", at) }

// tool runs a program of the system; its last words are part of the error.
func tool(ctx context.Context, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, toolMax)
	defer cancel()
	stderr := &tail{}
	c := exec.CommandContext(ctx, program, args...)
	c.Stderr, c.WaitDelay = stderr, time.Second
	if err := c.Run(); err != nil {
		return fault.New(fault.Internal, "%s of the volume: %w: %s", program, err, strconv.Quote(stderr.line()))
	}
	return nil
}
