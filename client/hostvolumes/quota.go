package hostvolumes

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/open-nomad/open-nomad/client/dirquota"
)

// quota is the built-in plugin whose volumes have a size. Where the file system limits directories (package dirquota) a volume is
// the directory <id> with a limit. Elsewhere, and with the method loop, it is an ext4 file system in a file of its own, <id>.img, which is
// allocated in full and mounted at <id>. The file is made as <id>.new and renamed when it is complete.
type quota struct{ dir string }

// loop is the method of volumes that are file systems; the other ones are the kinds of package dirquota.
const loop = "loop"

const (
	quotaMin = 4 << 20
	// slack is how much more than the size may fit.
	slack = 512 << 10
	// rounds is how often a file system is made until its free space is the size.
	rounds = 6
	// toolMax bounds a call of mkfs, mount or umount.
	toolMax = 30 * time.Second
)

// method returns how new volumes are limited, and why it is loop; "" when the node cannot limit any.
func (p quota) method() (method string, why error) {
	if err := prepare(p.dir); err != nil {
		return "", err
	}
	kind, err := dirquota.Detect(p.dir)
	switch {
	case err == nil:
		return string(kind), nil
	case loopWorks():
		return loop, err
	}
	return "", fault.New(fault.Invalid, "plugin quota needs root, mkfs.ext4, mount and loop devices on the node, or quotas: %w", err)
}

// methodOf returns how the volume is limited, or is to be.
func (p quota) methodOf(v *api.HostVolume, wanted string) (string, error) {
	image, mounted := p.paths(v)
	has := ""
	if _, err := os.Lstat(image); err == nil {
		has = loop
	} else if kind, err := dirquota.Of(mounted); err == nil {
		has = string(kind)
	}
	if has != "" {
		if wanted != "" && wanted != has {
			return "", fault.New(fault.Invalid, "parameter method: the volume is made with the method %q, which does not change", has)
		}
		return has, nil
	}
	method, err := p.method()
	switch {
	case method == "":
		return "", err
	case wanted == "", wanted == method:
		return method, nil
	case wanted != loop:
		return "", fault.New(fault.Invalid, "parameter method: the node cannot use the method %q: %s has %q (%w)", wanted, p.dir, method, err)
	case !loopWorks():
		return "", fault.New(fault.Invalid, "the method loop needs root, mkfs.ext4, mount and loop devices on the node")
	}
	return loop, nil
}

// loopWorks reports whether the node can make and mount file systems.
func loopWorks() bool {
	_, noMkfs := exec.LookPath("mkfs.ext4")
	_, noMount := exec.LookPath("mount")
	_, noLoop := os.Stat("/dev/loop-control")
	return os.Geteuid() == 0 && noMkfs == nil && noMount == nil && noLoop == nil
}

func (p quota) paths(v *api.HostVolume) (image, mounted string) {
	return filepath.Join(p.dir, v.ID+".img"), filepath.Join(p.dir, v.ID)
}

func (p quota) create(ctx context.Context, v *api.HostVolume, fresh bool) (made, error) {
	o, err := parameters(v, "mode", "uid", "gid", "method")
	if err != nil {
		return made{}, err
	}
	size := requested(v)
	if size < quotaMin {
		return made{}, fault.New(fault.Invalid, "plugin quota needs capacity_min or capacity_max of at least %d bytes", quotaMin)
	}
	method, err := p.methodOf(v, o.method)
	if err != nil {
		return made{}, err
	}
	if method != loop {
		return p.limit(v, dirquota.Kind(method), size, o, fresh)
	}
	return p.loop(ctx, v, size, o)
}

// requested is the size that is asked for.
func requested(v *api.HostVolume) int64 {
	return max(v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes)
}

// limit makes a directory with a limit, or changes the limit.
func (p quota) limit(v *api.HostVolume, kind dirquota.Kind, size int64, o owner, fresh bool) (made, error) {
	_, path := p.paths(v)
	if err := kind.Make(path, 0o700); err != nil {
		return made{}, fault.New(fault.Internal, "make the directory: %w", err)
	}
	if err := isDirectory(path); err != nil {
		return made{}, err
	}
	err := dirquota.Set(path, size+slack/2) // what the file system needs for itself counts, too
	if errors.Is(err, dirquota.ErrPlain) {
		return made{}, fault.New(fault.Conflict, "%s has content already, and no limit: remove it", path)
	}
	if err == nil && fresh {
		err = o.apply(path)
	}
	return made{path, size}, err
}

// loop makes and mounts a file system, or grows it.
func (p quota) loop(ctx context.Context, v *api.HostVolume, size int64, o owner) (made, error) {
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
	here, err := mountinfo.Mounted(mounted)
	if err != nil {
		return made{}, err
	}
	if _, err := os.Stat(image); errors.Is(err, fs.ErrNotExist) {
		if here { // an agent that was killed has left a file system that is not complete
			if err := unmount(ctx, mounted); err != nil {
				return made{}, err
			}
			here = false
		}
		if err := p.format(ctx, image, mounted, size, o); err != nil {
			return made{}, err
		}
	}
	if !here {
		if err := mount(ctx, image, mounted); err != nil {
			return made{}, err
		}
	}
	return made{mounted, size}, grow(ctx, image, mounted, size)
}

// grow makes a mounted file system larger if it has less than the size.
func grow(ctx context.Context, image, mounted string, size int64) error {
	for range rounds {
		var st unix.Statfs_t
		if err := unix.Statfs(mounted, &st); err != nil {
			return err
		}
		has := int64(st.Blocks) * st.Bsize
		if has >= size {
			return nil
		}
		file, err := os.Stat(image)
		if err != nil {
			return err
		}
		if err := allocate(image, file.Size()+(size-has)*33/32+slack/2, 0); err != nil {
			return err
		}
		device, err := deviceOf(mounted)
		if err != nil {
			return err
		}
		if err := tool(ctx, "losetup", "-c", device); err != nil {
			return err
		}
		if err := tool(ctx, "resize2fs", device); err != nil {
			_ = os.Truncate(image, file.Size())
			_ = tool(ctx, "losetup", "-c", device)
			return fmt.Errorf("the volume keeps its %d bytes: growing it needs the capability CAP_SYS_RESOURCE: %w", has, err)
		}
	}
	return fault.New(fault.Internal, "the file system does not grow to %d bytes", size)
}

// deviceOf is the loop device of a mounted file system.
func deviceOf(mounted string) (string, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(mounted))
	if err == nil && len(mounts) == 0 {
		err = fault.New(fault.Internal, "%s is not mounted", mounted)
	}
	if err != nil {
		return "", err
	}
	return mounts[0].Source, nil
}

// format makes a file system in which exactly the size is free. How much a file system needs for itself depends on its size,
// so its free space is measured and the file made again with the difference.
func (p quota) format(ctx context.Context, image, mounted string, size int64, o owner) error {
	draft := strings.TrimSuffix(image, ".img") + ".new"
	defer os.Remove(draft)
	whole := size + size/32 + quotaMin
	for range rounds {
		// A new file: a loop device that is not gone yet may have blocks of the old one in memory, and would be used again.
		if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := allocate(draft, whole, os.O_EXCL); err != nil {
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
func allocate(path string, size int64, flags int) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|flags|syscall.O_NOFOLLOW, 0o600)
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
	if kind, err := dirquota.Of(mounted); err == nil && kind != dirquota.None {
		removed, err := dirquota.Lift(mounted)
		if err == nil {
			err = mkdir(p).remove(ctx, v)
		}
		if err == nil {
			removed()
		}
		return err
	}
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
