package dirs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirquota"
)

const (
	// carriedName is where data is copied to from a directory that a rename cannot reach.
	carriedName = madePrefix + "carried"
	// carryMax bounds the copy.
	carryMax = time.Hour
	// startRoom is what an allocation can write whose data is as large as its limit, or larger: its tasks could not be started.
	startRoom = 1 << 20
)

// Limit limits what the allocation's directory and all in it take, without what is mounted there. A directory that was made
// before sizes were limited, or of a [Tree] that is not [Tree.Limited], stays without a limit. A limit that is set already stays
// as it is.
func (a Alloc) Limit(bytes int64) error {
	if a.quota == dirquota.None {
		return nil
	}
	u, err := dirquota.Read(a.dir)
	if err == nil && u.Limit == 0 {
		err = dirquota.Set(a.dir, max(bytes, u.Used+startRoom))
	}
	if errors.Is(err, dirquota.ErrPlain) {
		return nil
	}
	return err
}

// Full reports whether the allocation has reached its limit.
func (a Alloc) Full() bool {
	if a.quota == dirquota.None {
		return false
	}
	u, err := dirquota.Read(a.dir)
	return err == nil && u.Full()
}

// carry moves a directory as [Alloc.takePart] does, when their limits keep the two allocations from a rename. A directory that
// has content here already is left as it is.
func (a Alloc) carry(from Alloc, dir, name string, source, target int) error {
	if empty, err := emptyDirectory(target, name); err != nil || !empty {
		return err
	}
	err := dirquota.Adopt(source, name, a.dir)
	switch {
	case errors.Is(err, fault.Unimplemented):
		return a.copyHere(from, dir, name, source, target)
	case err != nil:
		return err
	}
	return unix.Renameat(source, name, target, name)
}

// copyHere copies a directory with everything that the file system keeps of its files, whose blocks are shared where it can,
// and removes it at its source.
func (a Alloc) copyHere(from Alloc, dir, name string, source, target int) error {
	path := filepath.Join(from.dir, dir, name)
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(path))
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fault.New(fault.Conflict, "%s is a mount point and is not copied", mounts[0].Mountpoint)
	}
	carried := filepath.Join(a.dir, carriedName)
	if err := Remove(carried); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), carryMax)
	defer cancel()
	c := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", "-T", "--", path, carried)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("copy: %w: %s", err, lastLine(out))
	}
	if err := unix.Syncfs(target); err != nil {
		return err
	}
	own, err := openDir(unix.AT_FDCWD, a.dir)
	if err != nil {
		return err
	}
	defer unix.Close(own)
	if err := unix.Renameat(own, carriedName, target, name); err != nil {
		return err
	}
	return Remove(path)
}

func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// emptyDirectory reports whether the name is free, or that of a directory with nothing in it.
func emptyDirectory(at int, name string) (bool, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return true, nil
	}
	if err != nil {
		return false, nil
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	_, err = f.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}
