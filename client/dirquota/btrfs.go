package dirquota

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Numbers of <linux/btrfs.h> and <linux/btrfs_tree.h>.
const (
	createSubvolume = 0x5000940e // BTRFS_IOC_SUBVOL_CREATE
	lookupInode     = 0xd0009412 // BTRFS_IOC_INO_LOOKUP
	fsInfo          = 0x8400941f // BTRFS_IOC_FS_INFO
	changeGroup     = 0x4010942a // BTRFS_IOC_QGROUP_CREATE
	limitGroup      = 0x8030942b // BTRFS_IOC_QGROUP_LIMIT

	subvolumeRoot  = 256 // BTRFS_FIRST_FREE_OBJECTID
	limitsReferred = 1   // BTRFS_QGROUP_LIMIT_MAX_RFER
	nameMax        = 255
	// noLimit removes a limit.
	noLimit = ^uint64(0)
)

// Arguments of the calls; what is not used is padding.
type (
	subvolumeArgs struct {
		fd   int64
		name [4088]byte
	}
	lookupArgs struct {
		tree, object uint64
		_            [4080]byte
	}
	infoArgs struct {
		maxID, devices uint64
		id             [16]byte
		_              [992]byte
	}
	groupArgs struct{ create, id uint64 }
	limitArgs struct{ id, flags, referred, exclusive, reservedReferred, reservedExclusive uint64 }
)

// quotasEnabled returns why the file system does not limit subvolumes.
func quotasEnabled(fd int, dir string) error {
	groups, err := groupsOf(fd)
	if err != nil {
		return fmt.Errorf("quotas of %s: %w", dir, err)
	}
	_, err = os.Stat(groups)
	enabled, _ := os.ReadFile(filepath.Join(groups, "enabled")) // older kernels have no such file
	if err != nil || strings.TrimSpace(string(enabled)) == "0" {
		return fault.New(fault.Unimplemented, "quotas of %s are off: run `btrfs quota enable %s`", dir, dir)
	}
	return nil
}

// groupsOf is the directory of sysfs with the qgroups of a file system.
func groupsOf(fd int) (string, error) {
	var info infoArgs
	if err := ioctl(fd, fsInfo, unsafe.Pointer(&info)); err != nil {
		return "", fmt.Errorf("ask for the id of the file system: %w", err)
	}
	return filepath.Join("/sys/fs/btrfs", uuid.UUID(info.id).String(), "qgroups"), nil
}

// makeSubvolume makes a subvolume unless something is there.
func makeSubvolume(path string, perm fs.FileMode) error {
	name := filepath.Base(path)
	if len(name) > nameMax {
		return fault.New(fault.Invalid, "the name of %s is longer than %d bytes", path, nameMax)
	}
	parent, err := open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	var args subvolumeArgs
	copy(args.name[:], name)
	switch err := ioctl(parent, createSubvolume, unsafe.Pointer(&args)); {
	case errors.Is(err, unix.EEXIST):
		return nil
	case err != nil:
		return fmt.Errorf("make subvolume %s: %w", path, err)
	}
	return os.Chmod(path, perm)
}

// subvolume returns the id of the subvolume of an open file.
func subvolume(fd int) (uint64, error) {
	args := lookupArgs{object: subvolumeRoot}
	if err := ioctl(fd, lookupInode, unsafe.Pointer(&args)); err != nil {
		return 0, fmt.Errorf("ask for the id of the subvolume: %w", err)
	}
	return args.tree, nil
}

// setGroup limits the subvolume of an open file.
func setGroup(fd int, bytes int64) error {
	args := limitArgs{flags: limitsReferred, referred: uint64(bytes)} // the id 0 is that of the subvolume
	if bytes == 0 {
		args.referred = noLimit
	}
	err := ioctl(fd, limitGroup, unsafe.Pointer(&args))
	if errors.Is(err, unix.ENOTCONN) {
		return errOff
	}
	return err
}

func readGroup(fd int) (Usage, error) {
	groups, err := groupsOf(fd)
	if err != nil {
		return Usage{}, err
	}
	id, err := subvolume(fd)
	if err != nil {
		return Usage{}, err
	}
	number := func(name string) (uint64, error) {
		b, err := os.ReadFile(filepath.Join(groups, fmt.Sprintf("0_%d", id), name))
		if err != nil {
			return 0, err
		}
		return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	}
	used, err := number("referenced")
	limit, err2 := number("max_referenced")
	if limit == noLimit {
		limit = 0
	}
	return Usage{Used: int64(used), Limit: int64(limit)}, errors.Join(err, err2)
}

// removeGroup removes the qgroup of a subvolume that was removed. Newer kernels do that, and refuse it until they have.
func removeGroup(dir string, id uint64) {
	fd, err := open(dir)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = ioctl(fd, changeGroup, unsafe.Pointer(&groupArgs{id: id}))
}
