package diskpages

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Bounds of a page and of paths.
const (
	pageBytes   = 4 << 20
	pageEntries = 4096
	// namesMax bounds the entries of one directory, which are read for each page.
	namesMax = 1 << 20
	depthMax = 128
	pathMax  = 4096
)

// beneath keeps a path below the directory that it starts from, on its file system, and without links.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV

// Parts returns the paths of what is copied, relative to the directory of an allocation: alloc/data, and local of each task. Names
// that are no single path elements are left out.
func Parts(tasks []string) []string {
	out := []string{"alloc/data"}
	for _, t := range tasks {
		if t != "" && t != "." && t != ".." && t != "alloc" && !strings.ContainsAny(t, "/\x00") {
			out = append(out, t+"/local")
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Read returns the page after the cursor of the data below dir, the directory of an allocation. Parts that dir does not have are
// left out. An error of class fault.Invalid means that the data cannot be copied.
func Read(dir string, tasks []string, after api.DiskCursor) (*api.DiskDataResponse, error) {
	top, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, fault.New(fault.NotFound, "the directory of the allocation is removed")
	}
	if err != nil {
		return nil, fmt.Errorf("read the data of the allocation: %w", err)
	}
	defer unix.Close(top)
	r := &reader{offset: after.Offset, page: &api.DiskDataResponse{}}
	for _, part := range order(tasks) {
		rest, begun := bytes.CutPrefix(after.Path, []byte(part))
		begun = begun && (len(rest) == 0 || rest[0] == '/')
		if len(after.Path) > 0 && !begun {
			if compare([]byte(part), after.Path) < 0 {
				continue
			}
			rest = nil
		}
		if err := r.part(top, part, begun, split(rest)); err != nil {
			return r.stop(err)
		}
		after.Path = nil
	}
	r.page.Omitted += r.omitted
	r.page.End = true
	return r.page, nil
}

// order returns the parts in the order of their entries.
func order(tasks []string) []string {
	parts := Parts(tasks)
	slices.SortFunc(parts, func(a, b string) int { return compare([]byte(a), []byte(b)) })
	return parts
}

// compare orders paths as Read visits them: element by element.
func compare(a, b []byte) int { return slices.CompareFunc(split(a), split(b), bytes.Compare) }

func split(p []byte) [][]byte {
	if p = bytes.Trim(p, "/"); len(p) == 0 {
		return nil
	}
	return bytes.Split(p, []byte("/"))
}

// errFull ends a page that has no space for the next entry.
var errFull = errors.New("the page is full")

type reader struct {
	page *api.DiskDataResponse
	// offset is where the page begins in the file of its cursor.
	offset int64
	// omitted counts what was left out since the last entry; bytes is the size of the data so far.
	omitted, bytes int
}

func (r *reader) stop(err error) (*api.DiskDataResponse, error) {
	if errors.Is(err, errFull) {
		return r.page, nil
	}
	return nil, err
}

// part reads alloc/data or the local directory of a task; begun is set when the cursor is in it, after is then the rest of its path.
func (r *reader) part(top int, part string, begun bool, after [][]byte) error {
	fd, err := openDir(top, part)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", part, err)
	}
	if !begun {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return errors.Join(fmt.Errorf("read %s: %w", part, err), unix.Close(fd))
		}
		if err := r.add(entry([]byte(part), &st)); err != nil {
			return errors.Join(err, unix.Close(fd))
		}
	}
	return r.walk(os.NewFile(uintptr(fd), part), []byte(part), after, 0)
}

func openDir(at int, name string) (int, error) {
	return unix.Openat2(at, name, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: beneath,
	})
}

// walk reads what is in an open directory, which it closes; of what is before the path after, nothing.
func (r *reader) walk(dir *os.File, at []byte, after [][]byte, depth int) error {
	defer dir.Close()
	if depth > depthMax {
		return fault.New(fault.Invalid, "the data has directories deeper than %d levels", depthMax)
	}
	names, err := dir.Readdirnames(namesMax + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read directory %q: %w", at, err)
	}
	if len(names) > namesMax {
		return fault.New(fault.Invalid, "directory %q has more than %d entries", at, namesMax)
	}
	if len(after) > 0 {
		names = slices.DeleteFunc(names, func(n string) bool { return n < string(after[0]) })
	}
	slices.Sort(names)
	for _, name := range names {
		where := slices.Concat(at, []byte("/"), []byte(name))
		if len(where) > pathMax {
			return fault.New(fault.Invalid, "the data has paths longer than %d bytes", pathMax)
		}
		begun := len(after) > 0 && name == string(after[0])
		var rest [][]byte
		if begun {
			rest = after[1:]
		}
		if err := r.visit(int(dir.Fd()), name, where, begun, rest, depth); err != nil {
			return err
		}
	}
	return nil
}

// visit reads one name of a directory; begun is set when it is on the path of the cursor, of which rest is left.
func (r *reader) visit(dir int, name string, where []byte, begun bool, rest [][]byte, depth int) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %q: %w", where, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return r.directory(dir, name, where, &st, begun, rest, depth)
	case unix.S_IFREG:
		from := int64(0)
		if begun {
			if len(rest) > 0 || r.offset == 0 {
				return nil
			}
			from = r.offset
		}
		return r.file(dir, name, where, from)
	case unix.S_IFLNK:
		if begun {
			return nil
		}
		return r.link(dir, name, where, &st)
	}
	if !begun {
		r.omitted++
	}
	return nil
}

func (r *reader) directory(dir int, name string, where []byte, st *unix.Stat_t, begun bool, rest [][]byte, depth int) error {
	fd, err := openDir(dir, name)
	switch {
	case errors.Is(err, unix.EXDEV): // a mount point
		if !begun {
			r.omitted++
		}
		return nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil
	case err != nil:
		return fmt.Errorf("read directory %q: %w", where, err)
	}
	if !begun {
		if err := r.add(entry(where, st)); err != nil {
			return errors.Join(err, unix.Close(fd))
		}
	}
	return r.walk(os.NewFile(uintptr(fd), name), where, rest, depth+1)
}

func (r *reader) link(dir int, name string, where []byte, st *unix.Stat_t) error {
	buf := make([]byte, pathMax+1)
	n, err := unix.Readlinkat(dir, name, buf)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL):
		return nil
	case err != nil:
		return fmt.Errorf("read link %q: %w", where, err)
	case leadsOutside(where, buf[:n]):
		r.omitted++
		return nil
	}
	e := entry(where, st)
	e.Size, e.Target = 0, buf[:n:n]
	return r.add(e)
}

// leadsOutside reports whether the target of a link at a path is outside of the allocation, taken by its text. In a task with
// files of its own, /alloc and /local are directories of the allocation.
func leadsOutside(at, target []byte) bool {
	if len(target) == 0 || len(target) > pathMax {
		return true
	}
	t := string(target)
	if strings.HasPrefix(t, "/") {
		t = path.Clean(t)
		return t != "/alloc" && t != "/local" && !strings.HasPrefix(t, "/alloc/") && !strings.HasPrefix(t, "/local/")
	}
	t = path.Join(path.Dir(string(at)), t)
	return t == ".." || strings.HasPrefix(t, "../")
}

// file reads the pieces of a regular file from an offset on, without its holes. The first has no data when there is none.
func (r *reader) file(dir int, name string, where []byte, from int64) error {
	if r.bytes >= pageBytes || len(r.page.Entries) >= pageEntries {
		return errFull
	}
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: beneath,
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO):
		return nil
	case errors.Is(err, unix.EXDEV):
		r.omitted++
		return nil
	case err != nil:
		return fmt.Errorf("open %q: %w", where, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("read %q: %w", where, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	for first := from == 0; ; first = false {
		begin, end := extent(fd, from, st.Size)
		if begin >= st.Size && !first {
			return nil
		}
		if r.bytes >= pageBytes {
			return errFull
		}
		e := entry(where, &st)
		if st.Nlink > 1 {
			e.Inode = st.Ino
		}
		if begin < st.Size {
			e.Offset, e.Data = begin, make([]byte, min(end-begin, api.PieceMax, int64(pageBytes-r.bytes)))
			n, err := f.ReadAt(e.Data, begin)
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read %q: %w", where, err)
			}
			if n == 0 { // it became shorter
				if !first {
					return nil
				}
				e.Offset = 0
			}
			e.Data = e.Data[:n]
		}
		if err := r.add(e); err != nil {
			return err
		}
		from = e.Offset + int64(len(e.Data))
		if from >= st.Size || len(e.Data) == 0 {
			return nil
		}
		r.page.Cursor.Offset = from
	}
}

// extent returns where the next data of a file begins and ends; it begins at the size when there is none.
func extent(fd int, from, size int64) (begin, end int64) {
	begin, err := unix.Seek(fd, from, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size, size
	case err != nil: // the file system has no such call
		return from, size
	}
	if end, err = unix.Seek(fd, begin, unix.SEEK_HOLE); err != nil || end <= begin {
		end = size
	}
	return begin, max(end, begin)
}

func entry(where []byte, st *unix.Stat_t) *api.DiskEntry {
	e := &api.DiskEntry{Path: where, Mode: st.Mode, UID: st.Uid, GID: st.Gid, ModTime: st.Mtim.Nano()}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		e.Size = st.Size
	}
	return e
}

// add appends an entry to the page, whose cursor is then after it.
func (r *reader) add(e *api.DiskEntry) error {
	if len(r.page.Entries) >= pageEntries || r.bytes >= pageBytes {
		return errFull
	}
	r.page.Entries = append(r.page.Entries, e)
	r.page.Cursor = api.DiskCursor{Path: e.Path}
	r.page.Omitted += r.omitted
	r.omitted = 0
	r.bytes += len(e.Path) + len(e.Target) + len(e.Data)
	return nil
}
