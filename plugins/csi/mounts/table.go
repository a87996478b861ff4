package mounts

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Entry is a line of the mount table.
type Entry struct {
	// ID is the number of the mount in the table; the kernel reuses those of removed mounts.
	ID int
	// Unique is the number that it gives once, higher for later mounts. [At] alone asks for it, and it is 0 before Linux 6.8.
	Unique uint64 `json:",omitzero"`
	// Dev is the device as major:minor; together with Root it identifies what is mounted.
	Dev string
	// Root is what of the file system is mounted, a path within it.
	Root string
	// Point is where it is mounted.
	Point    string
	ReadOnly bool
	Shared   bool
	FSType   string
	// Flags are the restrictions of this mount; those of the file system below are not part of it.
	Flags Flags `json:",omitzero"`
	// Times are those of the mount as the table lists them: without Access they are strict.
	Times Times `json:",omitzero"`
}

// Same reports whether both entries show the same files.
func (e *Entry) Same(o *Entry) bool { return e.Dev == o.Dev && e.Root == o.Root }

// List is a mount table as it was at one moment, in the order in which the mounts were made. To read it costs
// the kernel work for each mount of the host: who has several questions asks one list.
type List []*Entry

// Table reads the mount table of this process.
func Table() (List, error) { return read(func(string) bool { return true }) }

// Below returns the mounts at dir and inside it.
func Below(dir string) (List, error) {
	dir = resolve(dir)
	return read(func(p string) bool { return p == dir || strings.HasPrefix(p, dir+"/") })
}

// At returns the topmost mount at exactly this path with its unique number, nil when there is none. Its file system is not
// asked.
func At(path string) (*Entry, error) {
	top, err := topAt(resolve(path))
	if err == nil && top != nil {
		top.Unique = uniqueOf(top)
	}
	return top, err
}

// Tops returns the topmost mounts at those of the paths, which have no symbolic links, that are mounts, as [At] does, and
// the whole table. It costs as much as two calls of that, however many paths there are.
func Tops(paths []string) (top map[string]*Entry, all List, err error) {
	if all, err = Table(); err != nil {
		return nil, nil, err
	}
	wanted := make(map[string]bool, len(paths))
	for _, p := range paths {
		wanted[p] = true
	}
	top = map[string]*Entry{}
	for _, e := range all {
		if wanted[e.Point] {
			top[e.Point] = e
		}
	}
	giveUnique(top)
	return top, all, nil
}

// topAt returns the topmost mount at a path without symbolic links, as the table has it.
func topAt(path string) (*Entry, error) {
	found, err := read(func(p string) bool { return p == path })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[len(found)-1], nil
}

// At returns the topmost mount at exactly this path, nil when there is none.
func (l List) At(path string) *Entry {
	return l.AtExactly(resolve(path))
}

// AtExactly returns the topmost mount at a path that has no symbolic links, nil when there is none.
func (l List) AtExactly(path string) *Entry {
	for _, e := range slices.Backward(l) {
		if e.Point == path {
			return e
		}
	}
	return nil
}

func read(want func(point string) bool) (List, error) {
	infos, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) { return !want(i.Mountpoint), false })
	if err != nil {
		return nil, fmt.Errorf("read mount table: %w", err)
	}
	out := make(List, 0, len(infos))
	for _, i := range infos {
		out = append(out, &Entry{
			ID: i.ID, Dev: fmt.Sprintf("%d:%d", i.Major, i.Minor), Root: i.Root, Point: i.Mountpoint, FSType: i.FSType,
			ReadOnly: hasOption(i.Options, "ro"), Shared: strings.Contains(i.Optional, "shared:"),
			Flags: FlagsOf(strings.Split(i.Options, ",")), Times: TimesOf(strings.Split(i.Options, ",")),
		})
	}
	return out, nil
}

func hasOption(list, want string) bool {
	for o := range strings.SplitSeq(list, ",") {
		if o == want {
			return true
		}
	}
	return false
}

// resolve follows symbolic links in the parent of path: the path itself may be a mount that hangs.
func resolve(path string) string {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, filepath.Base(path))
}

// IsPoint reports whether path is a mount. A missing path is none.
func IsPoint(path string) (bool, error) {
	on, err := pointByWalk(path)
	if err != nil { // before Linux 5.6; the table knows it all the same
		e, tableErr := At(path)
		return e != nil, tableErr
	}
	return on, nil
}

// pointByWalk lets the kernel walk to a path from its parent directory without entering another mount. It does not
// access a mount there: statx would access its file system, and some contact a server then, whatever the flags are.
func pointByWalk(path string) (bool, error) {
	path = filepath.Clean(path)
	if path == "/" {
		return true, nil
	}
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(dir)
		fd := 0
		fd, err = unix.Openat2(dir, filepath.Base(path), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV,
		})
		if err == nil {
			unix.Close(fd)
		}
	}
	switch err {
	case nil, unix.ENOENT, unix.ENOTDIR:
		return false, nil
	case unix.EXDEV:
		return true, nil
	}
	return false, err
}

// Of returns the entry that a bind mount of path would have: the device and path within its file system.
func Of(path string) (*Entry, error) {
	table, err := Table()
	if err != nil {
		return nil, err
	}
	return table.Of(path)
}

// Of returns the entry that a bind mount of path would have.
func (l List) Of(path string) (*Entry, error) {
	path = resolve(path)
	var best *Entry
	for _, e := range l {
		inside := e.Point == path || e.Point == "/" || strings.HasPrefix(path, e.Point+"/")
		if inside && (best == nil || len(e.Point) >= len(best.Point)) {
			best = e
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no mount contains %s", path)
	}
	out := *best
	rel, err := filepath.Rel(best.Point, path)
	if err != nil {
		return nil, fmt.Errorf("locate %s in its file system: %w", path, err)
	}
	out.Root, out.Point = filepath.Join(best.Root, rel), path
	return &out, nil
}
