package bind

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// CheckKind returns the descriptor of a destination, or an error when it is of another kind than the source.
func CheckKind(fd int, dir bool) (int, *frame.Failed) {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return -1, failed(true, "destination: "+err.Error())
	}
	kind := st.Mode & syscall.S_IFMT
	if kind == syscall.S_IFLNK {
		return -1, failed(false, "destination is a symbolic link")
	}
	if (kind == syscall.S_IFDIR) != dir {
		return -1, failed(false, "one of source and destination is a directory, the other is not")
	}
	return fd, nil
}

// Beneath opens path below root step by step, creating what is missing. It follows no symbolic link,
// since the task could have put one there before its restart.
func Beneath(root, path string, dir bool) (int, *frame.Failed) {
	fd, err := syscall.Open(root, OPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1, failed(true, root+": "+err.Error())
	}
	start := len(root)
	for start < len(path) && path[start] == '/' {
		start++
	}
	for start < len(path) {
		end := start
		for end < len(path) && path[end] != '/' {
			end++
		}
		next, err := stepInto(fd, path[start:end], dir || end < len(path))
		_ = syscall.Close(fd)
		if err != nil {
			return -1, failed(false, "destination "+path[:end]+": "+err.Error())
		}
		fd, start = next, end+1
	}
	return CheckKind(fd, dir)
}

// OpenBelow opens a directory below root; a symbolic link on the way, which a task could have put there
// since the directory was made, is an error.
func OpenBelow(root, sub string) (int, error) {
	fd, err := syscall.Open(root, OPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	for start := 0; err == nil && start < len(sub); {
		end := start
		for end < len(sub) && sub[end] != '/' {
			end++
		}
		next := -1
		if name := sub[start:end]; name == ".." {
			err = syscall.EXDEV
		} else {
			next, err = syscall.Openat(fd, name, OPath|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
		}
		_ = syscall.Close(fd)
		fd, start = next, end+1
	}
	return fd, err
}

func stepInto(at int, name string, dir bool) (int, error) {
	flags := OPath | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	if dir {
		flags |= syscall.O_DIRECTORY
	}
	fd, err := syscall.Openat(at, name, flags, 0)
	if err != syscall.ENOENT {
		return fd, err
	}
	if dir {
		err = syscall.Mkdirat(at, name, 0o755)
	} else {
		var made int
		made, err = syscall.Openat(at, name, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o644)
		if err == nil {
			_ = syscall.Close(made)
		}
	}
	if err != nil && err != syscall.EEXIST {
		return -1, err
	}
	return syscall.Openat(at, name, flags, 0)
}
