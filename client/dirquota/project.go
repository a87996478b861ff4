package dirquota

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Project ids of this package: those that people choose are small.
const (
	firstProject = 1 << 30
	lastProject  = 1<<31 - 1
	// triesMax is how many project ids are tried.
	triesMax = 100
	// depthMax is how deep directories may lie in one that changes its project: each level costs a descriptor.
	depthMax = 512
)

// Numbers of <linux/fs.h>, <linux/quota.h> and <linux/dqblk_xfs.h>.
const (
	getAttributes  = 0x801c581f // FS_IOC_FSGETXATTR
	setAttributes  = 0x401c5820 // FS_IOC_FSSETXATTR
	inheritProject = 0x200      // FS_XFLAG_PROJINHERIT

	projectQuota    = 2           // PRJQUOTA
	getQuota        = 0x800007    // Q_GETQUOTA
	setQuota        = 0x800008    // Q_SETQUOTA
	getState        = 'X'<<8 | 8  // Q_XGETQSTATV
	projectEnforced = 1 << 5      // FS_QUOTA_PDQ_ENFD
	blockLimits     = 1           // QIF_BLIMITS
	quotaBlock      = int64(1024) // QIF_DQBLKSIZE
	stateSize       = 256         // more than struct fs_quota_statv
)

// attribute is struct fsxattr.
type attribute struct {
	flags, extent, extents, project, copyExtent uint32
	_                                           [8]byte
}

// ours reports whether the directory was made by this package.
func (a attribute) ours() bool {
	return a.flags&inheritProject != 0 && a.project >= firstProject && a.project <= lastProject
}

// quota is struct if_dqblk.
type quota struct {
	hard, soft, space, filesHard, filesSoft, files, spaceTime, filesTime uint64
	valid                                                                uint32
	_                                                                    uint32
}

func attributes(fd int) (a attribute, err error) {
	return a, ioctl(fd, getAttributes, unsafe.Pointer(&a))
}

// quotactl calls quotactl_fd, which needs no path of the device.
func quotactl(fd, command int, id uint32, p unsafe.Pointer) error {
	_, _, e := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), uintptr(command<<8|projectQuota), uintptr(id), uintptr(p), 0, 0)
	switch e { //nolint:exhaustive // others stay what they are
	case 0:
		return nil
	case unix.ESRCH:
		return errOff
	}
	return e
}

// projectsLimited returns why the file system does not limit projects.
func projectsLimited(fd int, dir string) error {
	state := [stateSize]byte{0: 1} // FS_QSTATV_VERSION1
	err := quotactl(fd, getState, 0, unsafe.Pointer(&state))
	switch {
	case errors.Is(err, unix.EPERM):
		return fault.New(fault.Denied, "project quotas of %s: the agent lacks the capability CAP_SYS_ADMIN", dir)
	case errors.Is(err, unix.ENOSYS) && !quotasBuiltIn():
		return fault.New(fault.Unimplemented, "the kernel has no quotas (CONFIG_QUOTA, CONFIG_XFS_QUOTA), or is older than 5.14")
	case err != nil && !errors.Is(err, errOff) && !errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("project quotas of %s: %w", dir, err)
	case err != nil, *(*uint16)(unsafe.Pointer(&state[2]))&projectEnforced == 0:
		return fault.New(fault.Unimplemented, "project quotas of %s are off: mount its file system with the option prjquota", dir)
	}
	return nil
}

// quotasBuiltIn reports whether the kernel has the parts of quotas that file systems share.
func quotasBuiltIn() bool {
	_, err := os.Stat("/proc/sys/fs/quota")
	return err == nil
}

// choosing is held from when a free project id was found until the directory has it.
var choosing sync.Mutex

// makeProject gives an empty directory a project id of its own, unless it has one.
func makeProject(path string) error {
	fd, err := open(path)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	a, err := attributes(fd)
	if err != nil {
		return fmt.Errorf("read the project of %s: %w", path, err)
	}
	if a.ours() {
		return nil
	}
	if _, err := f.Readdirnames(1); !errors.Is(err, io.EOF) { // what is in it would not be counted
		return err
	}
	choosing.Lock()
	defer choosing.Unlock()
	for range triesMax {
		id := firstProject + rand.Uint32N(lastProject-firstProject+1)
		var q quota
		err := quotactl(fd, getQuota, id, unsafe.Pointer(&q))
		switch {
		case errors.Is(err, unix.ENOENT): // it was never used
		case err != nil:
			return fmt.Errorf("find a project for %s: %w", path, err)
		case q.hard != 0 || q.soft != 0 || q.space != 0 || q.files != 0:
			continue
		}
		return setProjectOf(fd, id)
	}
	return fault.New(fault.Exhausted, "no project id is free for %s after %d tries", path, triesMax)
}

// setProjectOf gives an open file or directory a project.
func setProjectOf(fd int, id uint32) error {
	a, err := attributes(fd)
	if err != nil {
		return fmt.Errorf("read the project: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	a.project = id
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		a.flags |= inheritProject
	}
	if err := ioctl(fd, setAttributes, unsafe.Pointer(&a)); err != nil {
		return fmt.Errorf("set the project: %w", err)
	}
	return nil
}

func setProject(fd int, id uint32, bytes int64) error {
	q := quota{hard: uint64((bytes + quotaBlock - 1) / quotaBlock), valid: blockLimits}
	return quotactl(fd, setQuota, id, unsafe.Pointer(&q))
}

func readProject(fd int, id uint32) (Usage, error) {
	var q quota
	err := quotactl(fd, getQuota, id, unsafe.Pointer(&q))
	if errors.Is(err, unix.ENOENT) {
		return Usage{}, nil
	}
	return Usage{Used: int64(q.space), Limit: int64(q.hard) * quotaBlock}, err
}

// Adopt makes the directory name in the open directory at, and all below it, count for the directory into, so that it can be
// renamed to there. An error of class fault.Unimplemented means that its files have to be copied. Links, pipes and sockets count for where
// they were.
func Adopt(at int, name, into string) error {
	d, err := find(into)
	if err != nil {
		return err
	}
	defer d.close()
	if d.kind != Project {
		return fault.New(fault.Unimplemented, "%s has no project", into)
	}
	return adopt(at, name, d.id, depthMax)
}

func adopt(at int, name string, id uint32, depth int) error {
	if depth == 0 {
		return fault.New(fault.TooLarge, "directories are more than %d levels deep", depthMax)
	}
	var st unix.Stat_t
	err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if mode := st.Mode & unix.S_IFMT; err != nil || mode != unix.S_IFDIR && mode != unix.S_IFREG {
		return err
	}
	fd, err := unix.Openat2(at, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if err := setProjectOf(fd, id); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for st.Mode&unix.S_IFMT == unix.S_IFDIR {
		names, err := f.Readdirnames(256)
		for _, n := range names {
			if err := adopt(fd, n, id, depth-1); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func ioctl(fd int, request uintptr, p unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(p)); e != 0 {
		return e
	}
	return nil
}
