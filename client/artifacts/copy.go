package artifacts

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// copyEntry copies an entry to a directory of another file system, such as that of secrets.
func copyEntry(from *os.Root, name string, to *os.Root, as string) error {
	st, err := from.Lstat(name)
	if err != nil {
		return err
	}
	made := ".made-" + rand.Text()
	switch {
	case st.Mode().Type() == fs.ModeSymlink:
		var target string
		if target, err = from.Readlink(name); err == nil {
			err = to.Symlink(target, made)
		}
	case st.IsDir():
		err = copyDir(from, name, to, made)
	default:
		err = copyFile(from, name, to, made)
	}
	if s, ok := st.Sys().(*syscall.Stat_t); err == nil && ok && os.Geteuid() == 0 {
		err = to.Lchown(made, int(s.Uid), int(s.Gid))
	}
	if err == nil && st.Mode().Type() != fs.ModeSymlink {
		err = to.Chmod(made, st.Mode().Perm())
	}
	if err == nil {
		err = to.Rename(made, as)
	}
	if err != nil {
		_ = to.RemoveAll(made)
	}
	return err
}

func copyFile(from *os.Root, name string, to *os.Root, made string) error {
	src, err := from.Open(name)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := to.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

func copyDir(from *os.Root, name string, to *os.Root, made string) error {
	below, err := from.OpenRoot(name)
	if err != nil {
		return err
	}
	defer below.Close()
	if err := to.Mkdir(made, 0o700); err != nil {
		return err
	}
	into, err := to.OpenRoot(made)
	if err != nil {
		return err
	}
	defer into.Close()
	entries, err := fs.ReadDir(below.FS(), ".")
	for _, e := range entries {
		if err := copyEntry(below, e.Name(), into, e.Name()); err != nil {
			return err
		}
	}
	return err
}
