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
		err = copySparse(f, source)
	}
	if err == nil {
		err = f.Truncate(size)
	}
	return errors.Join(err, f.Close())
}

// copySparse copies the parts of source that hold data.
func copySparse(to *os.File, source string) error {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer from.Close()
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
// devices are left out.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			err = os.Mkdir(target, 0o700)
		case e.Type()&fs.ModeSymlink != 0:
			var link string
			if link, err = os.Readlink(path); err == nil {
				err = os.Symlink(link, target)
			}
		case e.Type().IsRegular():
			err = copyFile(path, target)
		default:
			return nil
		}
		if err != nil {
			return err
		}
		return dress(target, info)
	})
}

func copyFile(from, to string) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = copySparse(f, from)
	if err == nil {
		var i fs.FileInfo
		if i, err = os.Stat(from); err == nil {
			err = f.Truncate(i.Size())
		}
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
