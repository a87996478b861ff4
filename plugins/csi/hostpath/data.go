package hostpath

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// makeData makes the directory or image of a volume or snapshot, empty or as a copy. It appears under its
// name only when it is complete.
func (d *driver) makeData(id string, block bool, size int64, source string) error {
	final, draft := d.books.data(id), d.books.data(id)+".new"
	for _, old := range []string{draft, final} {
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("remove remains of %s: %w", id, err)
		}
	}
	if err := fillDraft(draft, block, size, source); err != nil {
		return errors.Join(fmt.Errorf("make data of %s: %w", id, err), os.RemoveAll(draft))
	}
	if err := os.Rename(draft, final); err != nil {
		return fmt.Errorf("make data of %s: %w", id, err)
	}
	return nil
}

func fillDraft(draft string, block bool, size int64, source string) error {
	switch {
	case !block && source == "":
		if err := os.Mkdir(draft, 0o777); err != nil {
			return err
		}
		return os.Chmod(draft, 0o777)
	case !block:
		return copyTree(source, draft)
	}
	f, err := os.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if source != "" {
		err = copyImage(f, source)
	}
	if err == nil {
		err = f.Truncate(size)
	}
	return errors.Join(err, f.Close())
}

func copyImage(to *os.File, source string) error {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer from.Close()
	return copySparse(to, from)
}

// copySparse copies the parts of a file that hold data.
func copySparse(to, from *os.File) error {
	var at int64
	for {
		begin, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		if err != nil {
			return err
		}
		if at, err = unix.Seek(int(from.Fd()), begin, unix.SEEK_HOLE); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(to, begin), io.NewSectionReader(from, begin, at-begin)); err != nil {
			return err
		}
	}
}

// copyTree copies directories, files and links with their owners, modes and times. Sockets, pipes and
// devices are left out. Tasks may write to the volume meanwhile: nothing outside of it is opened, whatever links they
// make.
func copyTree(from, to string) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := root.Lstat(path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, path)
		switch {
		case info.IsDir():
			err = os.Mkdir(target, 0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			var link string
			if link, err = root.Readlink(path); err == nil {
				err = os.Symlink(link, target)
			}
		case info.Mode().IsRegular():
			err = copyFile(root, path, target)
		default:
			return nil
		}
		if err != nil {
			return err
		}
		return dress(target, info)
	})
}

// copyFile copies a regular file; what has become a pipe meanwhile is not waited for.
func copyFile(root *os.Root, path, to string) error {
	from, err := root.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s was replaced while it was copied", path)
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err = copySparse(f, from); err == nil {
		err = f.Truncate(info.Size())
	}
	return errors.Join(err, f.Close())
}

// dress gives a copy the owner, mode and time of its original.
func dress(path string, like fs.FileInfo) error {
	if s, ok := like.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		if err := os.Lchown(path, int(s.Uid), int(s.Gid)); err != nil {
			return err
		}
	}
	if like.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	if err := os.Chmod(path, like.Mode()); err != nil {
		return err
	}
	return os.Chtimes(path, time.Time{}, like.ModTime())
}
