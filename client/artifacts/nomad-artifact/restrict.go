package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	openFiles    = 1024
	memoryMax    = 4 << 30
	addressMax   = 256 << 30
	memoryTarget = 1 << 30
)

// restrict drops the rights that a download does not need. It works for all threads: the program must be built without cgo.
func restrict(req request) error {
	unix.Umask(0o022)
	debug.SetMemoryLimit(memoryTarget)
	limits := map[int]uint64{unix.RLIMIT_NOFILE: openFiles, unix.RLIMIT_DATA: memoryMax, unix.RLIMIT_AS: addressMax, unix.RLIMIT_CORE: 0}
	if largest := max(req.MaxBytes, req.MaxUnpacked); req.MaxBytes > 0 && req.MaxUnpacked > 0 {
		limits[unix.RLIMIT_FSIZE] = uint64(largest)
	}
	for which, limit := range limits {
		if err := syscall.Setrlimit(which, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("set resource limit %d: %w", which, err)
		}
	}
	if req.User != 0 {
		if err := changeUser(req.User); err != nil {
			return err
		}
	}
	if _, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		return fmt.Errorf("set no_new_privs: %w", e)
	}
	if req.Confined {
		return confine(".", req.Extra)
	}
	return nil
}

func changeUser(id int) error {
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("leave the groups: %w", err)
	}
	if err := syscall.Setresgid(id, id, id); err != nil {
		return fmt.Errorf("change the group: %w", err)
	}
	if err := syscall.Setresuid(id, id, id); err != nil {
		return fmt.Errorf("change the user: %w", err)
	}
	return nil
}

// Rights of Landlock by the version of its interface.
const (
	readRights  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileRights  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	firstRights = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1
)

// system are the directories and files that programs such as git need, with their rights.
var system = []string{
	"d:rx:/usr", "d:rx:/bin", "d:rx:/sbin", "d:rx:/lib", "d:rx:/lib32", "d:rx:/lib64", "d:rx:/nix/store",
	"d:r:/etc", "d:r:/run/systemd/resolve", "d:r:/run/resolvconf", "d:r:/run/NetworkManager",
	"f:rw:/dev/null", "f:r:/dev/zero", "f:r:/dev/urandom", "f:r:/dev/random",
}

// confine limits the files that the program and those that it starts can reach: dir, with all rights, the system's files and
// extra. A kernel without Landlock leaves them to the rights of the user.
func confine(dir string, extra []string) error {
	version, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return nil
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: firstRights}
	if version >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if e != 0 {
		return fmt.Errorf("make landlock rules: %w", e)
	}
	defer unix.Close(int(fd))
	if err := allow(int(fd), dir, attr.Handled_access_fs); err != nil {
		return err
	}
	for i, rule := range append(append([]string{}, system...), extra...) {
		path, rights, err := parse(rule)
		if err != nil {
			return err
		}
		if err := allow(int(fd), path, rights&attr.Handled_access_fs); err != nil && i >= len(system) {
			return err
		}
	}
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); e != 0 {
		return fmt.Errorf("apply landlock rules: %w", e)
	}
	return nil
}

func allow(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "allow", Path: path, Err: err}
	}
	defer unix.Close(fd)
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); e != 0 {
		return fmt.Errorf("allow %s: %w", path, e)
	}
	return nil
}

// parse reads "d:rx:/opt/bin": a directory or file, its rights of read, write, create and execute, and its path.
func parse(rule string) (path string, rights uint64, err error) {
	parts := strings.SplitN(rule, ":", 3)
	if len(parts) != 3 || parts[0] != "d" && parts[0] != "f" || strings.Trim(parts[1], "rwcx") != "" || !filepath.IsAbs(parts[2]) {
		return "", 0, fmt.Errorf("path %q is not of the form kind:rights:/path, such as d:rx:/opt/bin", rule)
	}
	for _, right := range parts[1] {
		switch right {
		case 'r':
			rights |= readRights
		case 'w':
			rights |= unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
		case 'c':
			rights |= unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR
		case 'x':
			rights |= unix.LANDLOCK_ACCESS_FS_EXECUTE
		}
	}
	if parts[0] == "f" {
		rights &= fileRights
	}
	return parts[2], rights, nil
}
