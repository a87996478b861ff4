package mounts

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Times defines when reading a mount changes access times; empty leaves it as it is on the mount that is bound.
type Times struct {
	// Access is noatime, relatime or strictatime.
	Access string `json:",omitempty"`
	// Directories is diratime or nodiratime.
	Directories string `json:",omitempty"`
}

// TimesOf returns the access time settings in a list of mount options; of contradicting options the last one holds.
func TimesOf(options []string) (t Times) {
	for _, o := range options {
		switch o {
		case "noatime", "relatime", "strictatime":
			t.Access = o
		case "atime": // the kernel's default
			t.Access = "relatime"
		case "diratime", "nodiratime":
			t.Directories = o
		}
	}
	return t
}

// Like reports whether a mount with the times o does what t asks for.
func (t Times) Like(o Times) bool {
	access := t.Access == "" || t.Access == o.access()
	return access && (t.Directories == "" || (t.Directories == "nodiratime") == (o.Directories == "nodiratime"))
}

// access is what the mount table means: it does not list strictatime.
func (t Times) access() string {
	if t.Access == "" {
		return "strictatime"
	}
	return t.Access
}

// attributes are those of mount_setattr, and the flags of the older call.
func (t Times) attributes() (set, clr uint64, flags uintptr) {
	switch t.Access {
	case "noatime":
		set, clr, flags = unix.MOUNT_ATTR_NOATIME, unix.MOUNT_ATTR__ATIME, unix.MS_NOATIME
	case "relatime":
		set, clr, flags = unix.MOUNT_ATTR_RELATIME, unix.MOUNT_ATTR__ATIME, unix.MS_RELATIME
	case "strictatime":
		set, clr, flags = unix.MOUNT_ATTR_STRICTATIME, unix.MOUNT_ATTR__ATIME, unix.MS_STRICTATIME
	}
	switch t.Directories {
	case "nodiratime":
		set, flags = set|unix.MOUNT_ATTR_NODIRATIME, flags|unix.MS_NODIRATIME
	case "diratime":
		clr |= unix.MOUNT_ATTR_NODIRATIME
	}
	return set, clr, flags
}

// SetTimes changes the access times of the mount at path.
func SetTimes(path string, t Times) error {
	set, clr, flags := t.attributes()
	if set == 0 && clr == 0 {
		return nil
	}
	err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, &unix.MountAttr{Attr_set: set, Attr_clr: clr})
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.12
		var has unix.Statfs_t
		if err = unix.Statfs(path, &has); err == nil {
			kept := uintptr(has.Flags) & keptFlags
			if t.Access != "" {
				kept &^= unix.MS_NOATIME
			}
			if t.Directories == "diratime" {
				kept &^= unix.MS_NODIRATIME
			}
			err = unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|kept|flags, "")
		}
	}
	if err != nil {
		return fmt.Errorf("set the access times of the mount at %s: %w", path, err)
	}
	return nil
}
