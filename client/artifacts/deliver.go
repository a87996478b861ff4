package artifacts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
)

// content is the name of the result in the directory out of a download.
const content = "content"

// owner is the owner of delivered files; keep leaves that of the download.
type owner struct {
	uid, gid int
	keep     bool
}

// ownerOf returns the user of the task for an artifact with chown.
func ownerOf(a Artifact, name string) (owner, error) {
	if !a.Chown || os.Geteuid() != 0 {
		return owner{keep: true}, nil
	}
	if name == "" {
		return owner{}, nil
	}
	uid, gid, both := strings.Cut(name, ":")
	u, err := user.Lookup(uid)
	if err != nil {
		if u, err = user.LookupId(uid); err != nil {
			return owner{}, fault.New(fault.Invalid, "chown: the node does not know user %q of the task", name)
		}
	}
	if !both {
		gid = u.Gid
	} else if g, err := user.LookupGroup(gid); err == nil {
		gid = g.Gid
	}
	o := owner{}
	if o.uid, err = strconv.Atoi(u.Uid); err == nil {
		o.gid, err = strconv.Atoi(gid)
	}
	if err != nil {
		return owner{}, fault.New(fault.Invalid, "chown: the node does not know user and group %q of the task", name)
	}
	return o, nil
}

// openResult opens the directory of the result, which the program can replace by a link.
func openResult(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenRoot("out")
}

// deliver checks the result of a download and moves it to its destination.
func deliver(dir string, to Place, a Artifact, o owner) error {
	from, err := openResult(dir)
	if err != nil {
		return fmt.Errorf("open the download: %w", err)
	}
	defer from.Close()
	st, err := from.Lstat(content)
	if err != nil {
		return fmt.Errorf("open the download: %w", err)
	}
	base, rel := to.resolve(a.Destination)
	root, err := os.OpenRoot(base)
	if err != nil {
		return fmt.Errorf("open the directory of the task: %w", err)
	}
	defer root.Close()
	if !st.IsDir() {
		if err := inspect(from, content, st, o); err != nil {
			return err
		}
		if rel == "." {
			return fault.New(fault.Invalid, "destination %q is a directory: name a file with mode \"file\"", a.Destination)
		}
		return place(root, path.Dir(rel), func(parent *os.Root) error { return move(from, content, parent, path.Base(rel)) }, o)
	}
	tree, err := from.OpenRoot(content)
	if err != nil {
		return fmt.Errorf("open the download: %w", err)
	}
	defer tree.Close()
	err = fs.WalkDir(tree.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := tree.Lstat(name)
		if err != nil {
			return err
		}
		return inspect(tree, name, st, o)
	})
	if err != nil {
		return fmt.Errorf("check the download: %w", err)
	}
	return place(root, rel, func(parent *os.Root) error { return merge(tree, parent) }, o)
}

// resolve returns the directory that contains a destination, and the destination below it.
func (p Place) resolve(destination string) (base, rel string) {
	if destination == "" {
		destination = "local"
	}
	name := path.Clean(destination)
	shared := []string{p.Shared, "../alloc"}
	if p.Isolated {
		shared = append(shared, "/alloc")
	}
	for _, prefix := range shared {
		if rest, ok := strings.CutPrefix(name, prefix); ok && (rest == "" || rest[0] == '/') {
			return p.Shared, path.Clean("." + rest)
		}
	}
	if rest, ok := strings.CutPrefix(name, p.Task); ok && (rest == "" || rest[0] == '/') {
		name = rest
	}
	return p.Task, path.Clean("./" + strings.TrimLeft(name, "/"))
}

// inspect refuses what no artifact may contain, and sets the owner and the mode of the rest.
func inspect(root *os.Root, name string, st fs.FileInfo, o owner) error {
	mode := st.Mode()
	switch {
	case mode.Type() == fs.ModeSymlink:
		target, err := root.Readlink(name)
		if err != nil {
			return err
		}
		if _, err := root.Stat(name); path.IsAbs(target) || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.New(fault.Invalid, "the link %s leads out of the artifact", name)
		}
	case mode.IsDir() || mode.IsRegular():
		// Only the owner can write. Without chown it is another user than the task's, who can do the rest then.
		perm := mode.Perm()&0o755 | 0o600
		if mode.IsDir() {
			perm |= 0o700
		}
		if o.keep {
			perm |= perm>>3&0o050 | perm>>6&0o005
		}
		if err := root.Chmod(name, perm); err != nil {
			return fmt.Errorf("set the mode of %s: %w", name, err)
		}
	default:
		return fault.New(fault.Invalid, "%s is neither a file nor a directory nor a link", name)
	}
	if o.keep {
		return nil
	}
	if err := root.Lchown(name, o.uid, o.gid); err != nil {
		return fmt.Errorf("set the owner of %s: %w", name, err)
	}
	return nil
}

// place makes the directory dir of root and calls put with it. What it makes has the owner of the artifact.
func place(root *os.Root, dir string, put func(*os.Root) error, o owner) error {
	if o.keep && os.Geteuid() == 0 {
		o = owner{uid: nobody, gid: nobody}
	}
	at, made := root, ""
	if dir != "." {
		for _, part := range strings.Split(dir, "/") {
			made = path.Join(made, part)
			err := root.Mkdir(made, 0o755)
			if err == nil && !o.keep {
				err = root.Lchown(made, o.uid, o.gid)
			}
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("make destination %s: %w", made, err)
			}
		}
		var err error
		if at, err = root.OpenRoot(dir); err != nil {
			return fmt.Errorf("open destination %s: %w", dir, err)
		}
		defer at.Close()
	}
	return put(at)
}

// merge moves all of a directory into another; directories that both have are merged.
func merge(from, to *os.Root) error {
	d, err := from.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(256)
		for _, name := range names {
			if err := mergeEntry(from, to, name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the download: %w", err)
		}
	}
}

func mergeEntry(from, to *os.Root, name string) error {
	st, err := from.Lstat(name)
	if err != nil {
		return err
	}
	there, err := to.Lstat(name)
	if err == nil && st.IsDir() && !there.IsDir() { // rename(2) replaces a file by a file only
		err = to.Remove(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace %s at the destination: %w", name, err)
	}
	if there == nil || !st.IsDir() || !there.IsDir() {
		return move(from, name, to, name)
	}
	below, err := from.OpenRoot(name)
	if err != nil {
		return err
	}
	defer below.Close()
	into, err := to.OpenRoot(name)
	if err != nil {
		return fmt.Errorf("open destination %s: %w", name, err)
	}
	defer into.Close()
	return merge(below, into)
}

// move moves an entry of one directory to another, and replaces a file there.
func move(from *os.Root, name string, to *os.Root, as string) error {
	src, err := from.Open(".")
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := to.Open(".")
	if err != nil {
		return err
	}
	defer dst.Close()
	err = unix.Renameat(int(src.Fd()), name, int(dst.Fd()), as)
	if errors.Is(err, unix.EXDEV) {
		err = copyEntry(from, name, to, as)
	}
	if err != nil {
		return fmt.Errorf("write %s to the destination: %w", as, err)
	}
	return nil
}
