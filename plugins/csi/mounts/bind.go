package mounts

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Flags are restrictions of a bind mount.
type Flags struct{ ReadOnly, NoSuid, NoDev, NoExec bool }

// FlagsOf returns the restrictions in a list of mount options; of contradicting options the last one holds.
func FlagsOf(options []string) (f Flags) {
	for _, o := range options {
		switch o {
		case "ro", "rw":
			f.ReadOnly = o == "ro"
		case "nosuid", "suid":
			f.NoSuid = o == "nosuid"
		case "nodev", "dev":
			f.NoDev = o == "nodev"
		case "noexec", "exec":
			f.NoExec = o == "noexec"
		}
	}
	return f
}

// Without returns the restrictions of f that o does not have.
func (f Flags) Without(o Flags) Flags {
	return Flags{f.ReadOnly && !o.ReadOnly, f.NoSuid && !o.NoSuid, f.NoDev && !o.NoDev, f.NoExec && !o.NoExec}
}

// With returns the restrictions of both.
func (f Flags) With(o Flags) Flags {
	return Flags{f.ReadOnly || o.ReadOnly, f.NoSuid || o.NoSuid, f.NoDev || o.NoDev, f.NoExec || o.NoExec}
}

// String lists the restrictions as mount options.
func (f Flags) String() string {
	var out []string
	for _, o := range []struct {
		on   bool
		name string
	}{{f.ReadOnly, "ro"}, {f.NoSuid, "nosuid"}, {f.NoDev, "nodev"}, {f.NoExec, "noexec"}} {
		if o.on {
			out = append(out, o.name)
		}
	}
	return strings.Join(out, ",")
}

func (f Flags) attributes() (set uint64, flags uintptr) {
	add := func(on bool, attr uint64, flag uintptr) {
		if on {
			set, flags = set|attr, flags|flag
		}
	}
	add(f.ReadOnly, unix.MOUNT_ATTR_RDONLY, unix.MS_RDONLY)
	add(f.NoSuid, unix.MOUNT_ATTR_NOSUID, unix.MS_NOSUID)
	add(f.NoDev, unix.MOUNT_ATTR_NODEV, unix.MS_NODEV)
	add(f.NoExec, unix.MOUNT_ATTR_NOEXEC, unix.MS_NOEXEC)
	return set, flags
}

// Bind shows source at target, which must exist. The restrictions hold from the first moment on.
func Bind(source, target string, f Flags) error {
	err := bindTree(source, target, f)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		err = bindTwice(source, target, f)
	}
	if err != nil {
		return fmt.Errorf("bind %s to %s: %w", source, target, err)
	}
	return nil
}

// bindTree prepares the mount out of sight and then moves it into place.
func bindTree(source, target string, f Flags) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if set, _ := f.attributes(); set != 0 {
		attr := unix.MountAttr{Attr_set: set}
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
			return err
		}
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// bindTwice is for kernels before 5.12: one mount call ignores the restrictions, so a second one sets them.
func bindTwice(source, target string, f Flags) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	_, flags := f.attributes()
	if flags == 0 {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""); err != nil {
		return errors.Join(err, unix.Unmount(target, unix.UMOUNT_NOFOLLOW))
	}
	return nil
}

// Restrict adds restrictions to the mount at path; those that it has stay.
func Restrict(path string, f Flags) error {
	set, flags := f.attributes()
	err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, &unix.MountAttr{Attr_set: set})
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.12
		var has unix.Statfs_t
		if err = unix.Statfs(path, &has); err == nil {
			flags |= uintptr(has.Flags) & keptFlags
			err = unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|flags, "")
		}
	}
	if err != nil {
		return fmt.Errorf("set %s on the mount at %s: %w", f, path, err)
	}
	return nil
}

// keptFlags are flags of a mount that a remount ends unless it repeats them. Their ST_ values, which statfs
// returns, are those of mount.
const keptFlags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME

// Share makes what is mounted below dir visible to mounts that were copied from it: dir becomes a shared mount
// of its own, unless it lies on a shared one already.
func Share(dir string) error {
	within, err := Of(dir)
	if err != nil {
		return err
	}
	if within.Shared {
		return nil
	}
	own, err := At(dir)
	if err != nil {
		return err
	}
	if own == nil {
		// A bind over them would hide them: they could not be unmounted, and the table shows them indefinitely.
		inside, err := Below(dir)
		if err != nil {
			return err
		}
		if len(inside) > 0 {
			return fmt.Errorf("share mounts below %s: %s is mounted there already, and %s, which the directory is on, is private: mount --make-shared %s shares both",
				dir, inside[0].Point, within.Point, within.Point)
		}
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s to itself: %w", dir, err)
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts below %s: %w", dir, err)
	}
	return nil
}
