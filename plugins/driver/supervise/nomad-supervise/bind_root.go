package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/bind"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

const oldRoot = "/.nomad-old-root"

// mirror covers dir, inside the namespace only, with a tmpfs that shows the same entries.
func (n *namespace) mirror(dir string) *frame.Failed {
	var err error
	if dir == "/" {
		err = n.mirrorRoot()
	} else {
		err = mirrorBelow(dir)
	}
	var st syscall.Stat_t
	if err == nil {
		err = syscall.Stat(dir, &st)
	}
	if err != nil {
		return failed(false, "mirror "+dir+": "+err.Error())
	}
	n.mirrors = append(n.mirrors, st.Dev)
	return nil
}

func mirrorBelow(dir string) error {
	fd, err := syscall.Open(dir, bind.OPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	covered := "/proc/self/fd/" + itoa(int64(fd))
	names := listDir(dir)
	if err := mountTmpfs(dir, covered); err != nil {
		return err
	}
	return showEntries(names, covered, dir)
}

// mirrorRoot makes the tmpfs the root directory: one cannot mount over "/".
func (n *namespace) mirrorRoot() error {
	names := listDir("/")
	if err := mountTmpfs(n.taskDir, "/"); err != nil {
		return err
	}
	if err := syscall.Mkdir(n.taskDir+oldRoot, 0o700); err != nil {
		return err
	}
	if err := syscall.PivotRoot(n.taskDir, n.taskDir+oldRoot); err != nil {
		return err
	}
	if err := syscall.Chdir("/"); err != nil {
		return err
	}
	if err := showEntries(names, oldRoot, ""); err != nil {
		return err
	}
	if err := syscall.Unmount(oldRoot, syscall.MNT_DETACH); err != nil {
		return err
	}
	return syscall.Rmdir(oldRoot)
}

// mountTmpfs gives the new directory the owner and mode of the one it stands for.
func mountTmpfs(at, like string) error {
	var st syscall.Stat_t
	if err := syscall.Stat(like, &st); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
		return err
	}
	if err := syscall.Chown(at, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	return syscall.Chmod(at, st.Mode&0o7777)
}

// showEntries makes every entry of from visible in to: links are copied, all else is bound.
func showEntries(names []string, from, to string) error {
	var st syscall.Stat_t
	for _, name := range names {
		source, target := from+"/"+name, to+"/"+name
		if syscall.Lstat(source, &st) != nil {
			continue
		}
		var err error
		switch st.Mode & syscall.S_IFMT {
		case syscall.S_IFLNK:
			err = copyLink(source, target)
			if err == nil {
				continue
			}
		case syscall.S_IFDIR:
			err = syscall.Mkdir(target, 0o755)
		default:
			err = syscall.Mknod(target, syscall.S_IFREG|0o644, 0)
		}
		if err != nil {
			return err
		}
		if err := syscall.Mount(source, target, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
			return err
		}
	}
	return nil
}

func copyLink(source, target string) error {
	var b [4096]byte
	n, err := syscall.Readlink(source, b[:])
	if err != nil {
		return err
	}
	return syscall.Symlink(string(b[:n]), target)
}
