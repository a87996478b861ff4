package hostpath

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// makeData makes the directory or image of a volume or snapshot, empty or as a copy. It appears under its
// name only when it is complete.
func (d *driver) makeData(id string, block bool, size int64, source string) error {
	final, draft := d.books.data(id), draftOf(d.books.data(id))
	for _, old := range []string{draft, final} {
		if err := removeData(old); err != nil {
			return fmt.Errorf("remove remains of %s: %w", id, err)
		}
	}
	err := fillDraft(draft, block, size, source)
	if err == nil && source != "" {
		err = syncData(draft)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make data of %s: %w", id, err), removeData(draft))
	}
	if err := os.Rename(draft, final); err != nil {
		return fmt.Errorf("make data of %s: %w", id, err)
	}
	return nil
}

// syncData writes the file system of a directory or image back. A record that is durable afterwards implies that all
// of the data is durable.
func syncData(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

// purge removes the data of a volume or snapshot, and its record last: whatever happens before, the deletion can be
// repeated. The caller holds its lock, and has marked the record.
func (d *driver) purge(kind, id string) error {
	for _, path := range []string{d.books.data(id), draftOf(d.books.data(id))} {
		if err := removeData(path); err != nil {
			return fmt.Errorf("delete data of %s: %w", id, err)
		}
	}
	return d.books.drop(kind, id)
}

func draftOf(final string) string { return final + ".new" }

// removeData removes a directory or image. What a user has mounted inside is not ours: it is looked for first, and
// what is mounted later is not entered.
func removeData(path string) error {
	if err := unmounted(path); err != nil {
		return err
	}
	if at, err := os.Lstat(path); err == nil && at.IsDir() {
		if err := empty(path); err != nil {
			return err
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// empty removes what is in a directory.
func empty(dir string) error {
	tree, err := mounts.OpenUnmountedTree(dir)
	if err != nil {
		return err
	}
	defer tree.Close()
	names, err := fs.ReadDir(tree.FS(), ".")
	for _, n := range names {
		err = errors.Join(err, tree.RemoveAll(n.Name()))
	}
	return err
}

// unmounted returns an error when something is mounted at a path, or inside of it.
func unmounted(path string) error {
	inside, err := mounts.Below(path)
	if err != nil {
		return err
	}
	if len(inside) > 0 {
		return status.Errorf(codes.FailedPrecondition, "%s is mounted inside of it", inside[0].Point)
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
	from, err := mounts.OpenUnmounted(source, os.O_RDONLY)
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
// make. What is mounted inside of it is not part of it.
func copyTree(from, to string) error {
	root, err := mounts.OpenUnmountedTree(from)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return unlessGone(path, err)
		}
		info, err := root.Lstat(path)
		if entry.IsDir() && (err != nil || !info.IsDir()) {
			// What may come under its name from now on has no directory to be copied to.
			return cmp.Or(unlessGone(path, err), fs.SkipDir)
		}
		if err != nil {
			return unlessGone(path, err)
		}
		target := filepath.Join(to, path)
		switch {
		case info.IsDir():
			err = os.Mkdir(target, 0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			var link string
			if link, err = root.Readlink(path); err != nil {
				return unlessGone(path, err)
			}
			err = os.Symlink(link, target)
		case info.Mode().IsRegular():
			var from *os.File
			if from, err = root.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err != nil {
				return unlessGone(path, err)
			}
			if err = copyFile(from, target); errors.Is(err, errReplaced) {
				return nil
			}
		default:
			return nil
		}
		if err != nil {
			return err
		}
		return dress(target, info)
	})
}

// unlessGone passes over what is removed below the root of a tree while it is copied. What has taken its name meanwhile is
// new, and not part of the copy.
func unlessGone(path string, err error) error {
	if path != "." && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)) {
		return nil
	}
	return err
}

var errReplaced = errors.New("replaced by what is no regular file while it was copied")

// copyFile copies a regular file, and closes it; what has become a pipe meanwhile is not waited for.
func copyFile(from *os.File, to string) error {
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w", from.Name(), errReplaced)
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
