// Package diskuse measures how much of a disk the directories of allocations use.
//
// Tasks write to these directories: nothing is opened by its path, links are not followed, and what is mounted in them is
// not counted.
package diskuse

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// depthMax bounds the open descriptors; what lies deeper is not counted.
	depthMax = 64
	// namesMax is how many names of a directory are held at once.
	namesMax = 1024
	// blockSize is the unit of st_blocks.
	blockSize = 512
)

// Bytes returns the space that a directory and all below it take, as du counts it. When ctx ends first it returns the part
// that was counted, with the error of ctx. What cannot be read, or goes away meanwhile, is left out.
func Bytes(ctx context.Context, dir string) (int64, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	return below(ctx, os.NewFile(uintptr(fd), dir), depthMax)
}

// below counts what is in an open directory, and closes it.
func below(ctx context.Context, f *os.File, depth int) (sum int64, err error) {
	defer f.Close()
	for {
		names, err := f.Readdirnames(namesMax)
		for _, name := range names {
			if ctx.Err() != nil {
				return sum, ctx.Err()
			}
			n, err := entry(ctx, f, name, depth)
			if sum += n; err != nil {
				return sum, err
			}
		}
		if err != nil || len(names) == 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return sum, err
		}
	}
}

func entry(ctx context.Context, at *os.File, name string, depth int) (int64, error) {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT
	var st unix.Statx_t
	err := unix.Statx(int(at.Fd()), name, flags, unix.STATX_TYPE|unix.STATX_NLINK|unix.STATX_BLOCKS, &st)
	if err != nil || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return 0, nil
	}
	sum := int64(st.Blocks) * blockSize
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return sum / int64(max(st.Nlink, 1)), nil // each name of a file has its part
	}
	if depth <= 1 {
		return sum, nil
	}
	fd, err := unix.Openat2(int(at.Fd()), name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return sum, nil
	}
	n, err := below(ctx, os.NewFile(uintptr(fd), name), depth-1)
	if ctx.Err() == nil {
		err = nil
	}
	return sum + n, err
}
