package dirs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// secretsMB is the size of a secrets directory whose task asks for none, inodesPerMB limits its files.
	secretsMB   = 1
	inodesPerMB = 1024
	// markerName is the empty file that shows a task that its secrets are in memory.
	markerName = ".nomad-mount"
	// wipeMax bounds the removal of secrets before their file system is detached, stackedMax the mounts on one directory.
	wipeMax    = 10 * time.Second
	stackedMax = 8
	// triesMax is how often a secrets directory that a task renames is mounted.
	triesMax = 8
)

// InMemory returns the same tree, whose allocations keep the secrets of tasks in memory; see [Alloc.MountSecrets].
func (t Tree) InMemory() Tree {
	t.inMemory = true
	return t
}

// MountSecrets mounts a tmpfs of this size (0 means 1 MB) at the secrets directory of a task, which [Alloc.BuildTask] has made.
// One that is mounted is kept with its content. A process without the right to mount keeps the plain directory.
func (a Alloc) MountSecrets(task string, mb int) error {
	if !a.inMemory {
		return nil
	}
	if err := a.mountSecrets(task, max(mb, secretsMB)); err != nil {
		return fmt.Errorf("mount the secrets directory of task %s: %w", task, err)
	}
	return nil
}

func (a Alloc) mountSecrets(task string, mb int) error {
	at, err := a.openTask(task)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	for range triesMax {
		if done, err := mountOnce(at, mb); done || err != nil {
			return err
		}
	}
	return fault.New(fault.Conflict, "%s was renamed %d times while it was mounted", a.Task(task).Secrets(), triesMax)
}

// mountOnce mounts a tmpfs at the secrets directory of an open task directory. It reports false when a task has renamed that
// directory meanwhile: the mount would be at another name then.
func mountOnce(at, mb int) (done bool, err error) {
	dir, mounted, err := lookSecrets(at)
	if err != nil {
		return false, err
	}
	defer unix.Close(dir)
	if mounted {
		return true, nil
	}
	fs, err := newTmpfs(mb)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fs)
	marker, err := unix.Openat(fs, markerName, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return false, err
	}
	_ = unix.Close(marker)
	if err := unix.MoveMount(fs, "", dir, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return false, err
	}
	there, mounted, err := lookSecrets(at)
	if err == nil {
		_ = unix.Close(there)
		if mounted {
			return true, nil
		}
	}
	return false, unix.Unmount(descriptor(fs), unix.MNT_DETACH)
}

// newTmpfs makes a tmpfs that is mounted nowhere. Kernels before 6.4 may write its pages to swap.
func newTmpfs(mb int) (int, error) {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	_ = unix.FsconfigSetFlag(fd, "noswap")
	options := [][2]string{
		{"source", "nomad-secrets"},
		{"mode", "0777"},
		{"size", strconv.Itoa(mb) + "m"},
		{"nr_inodes", strconv.Itoa(mb * inodesPerMB)},
		{"uid", strconv.Itoa(nobody)},
		{"gid", strconv.Itoa(nobody)},
	}
	for _, o := range options {
		if err := unix.FsconfigSetString(fd, o[0], o[1]); err != nil {
			return -1, fmt.Errorf("set %s: %w", o[0], err)
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return -1, err
	}
	return unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
}

// openTask opens the directory of a task, which only the agent can replace.
func (a Alloc) openTask(task string) (int, error) {
	own, err := openDir(unix.AT_FDCWD, a.dir)
	if err != nil {
		return -1, err
	}
	defer unix.Close(own)
	return openDir(own, task)
}

// lookSecrets opens the secrets directory in that of a task, or the root of what is mounted there.
func lookSecrets(at int) (fd int, mounted bool, err error) { return look(at, secretsName) }

func look(at int, name string) (fd int, mounted bool, err error) {
	fd, err = unix.Openat2(at, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: beneath})
	if !errors.Is(err, unix.EXDEV) {
		return fd, false, err
	}
	fd, err = openDir(at, name)
	return fd, true, err
}

// SecretsFull reports whether the secrets of a task are in memory and have no room left.
func (a Alloc) SecretsFull(task string) bool {
	at, err := a.openSecrets(task)
	if err != nil {
		return false
	}
	defer unix.Close(at)
	var fs unix.Statfs_t
	return a.inMemory && unix.Fstatfs(at, &fs) == nil && fs.Type == unix.TMPFS_MAGIC && (fs.Bavail == 0 || fs.Ffree == 0)
}

// UnmountSecrets removes the secrets of all tasks and the file systems in memory that they are in; plain directories stay as they are.
// It detaches those in use. It stops at a mount inside of them, or of another kind, with an error of class Conflict.
func (a Alloc) UnmountSecrets() error {
	if !a.inMemory {
		return nil
	}
	entries, err := os.ReadDir(a.dir)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if e.IsDir() && e.Name() != sharedName {
			errs = append(errs, a.unmountSecrets(e.Name()))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("unmount the secrets of tasks: %w", err)
	}
	return nil
}

func (a Alloc) unmountSecrets(task string) error {
	own, err := openDir(unix.AT_FDCWD, a.dir)
	if err != nil {
		return err
	}
	defer unix.Close(own)
	at, err := unix.Openat(own, task, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(at), task)
	defer f.Close()
	for {
		names, err := f.ReadDir(namesMax)
		for _, e := range names {
			if e.IsDir() {
				if err := a.unmountAt(at, task, e.Name()); err != nil {
					return err
				}
			}
		}
		if len(names) == 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
	}
}

// unmountAt detaches what [Alloc.MountSecrets] has mounted at a directory of a task. That may have another name than the task's
// secrets: since Linux 6.8 a task can exchange the names of two directories while one of them becomes a mount point.
func (a Alloc) unmountAt(at int, task, name string) error {
	path := filepath.Join(a.dir, task, name)
	for range stackedMax {
		dir, mounted, err := look(at, name)
		if err != nil {
			return nil // whatever the task has put there is no mount
		}
		mounted = mounted && (name == secretsName || isSecrets(dir))
		if mounted {
			err = detach(dir, path)
		}
		_ = unix.Close(dir)
		if !mounted || err != nil {
			return err
		}
	}
	return fault.New(fault.Conflict, "%s has more than %d mounts", path, stackedMax)
}

// isSecrets reports whether the root of a mount is that of a file system for secrets.
func isSecrets(root int) bool {
	var fs unix.Statfs_t
	var st unix.Stat_t
	return unix.Fstatfs(root, &fs) == nil && fs.Type == unix.TMPFS_MAGIC && unix.Fstatat(root, markerName, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// detach empties a tmpfs and detaches it from its path. Mount namespaces of other tasks may have a copy of the mount.
func detach(root int, path string) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(root, &fs); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if fs.Type != unix.TMPFS_MAGIC {
		return fault.New(fault.Conflict, "%s is a mount point and is not removed", path)
	}
	r := &removal{path: []string{path}, top: -1, until: time.Now().Add(wipeMax)}
	if err := r.say(r.empty(root, ".")); errors.Is(err, fault.Conflict) {
		return err
	}
	if err := unix.Unmount(descriptor(root), unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}
