package diskpages

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// entriesMin is the number of entries that any disk may have; a disk has at least 1 KiB for each further one.
	entriesMin = 100_000
	// entriesTop is the number of entries that no disk may exceed: the directories among them are kept in memory.
	entriesTop = 4 << 20
	// freeMin is what a copy leaves free on the disk for the agent and for the other tasks.
	freeMin = 8 << 20
)

// ErrChanged means that a file changed between two of its pieces: the copy must begin again.
var ErrChanged = fault.New(fault.Conflict, "the data changed while it was copied")

// Writer makes the files of pages below a directory that only the agent can enter. It is for one goroutine.
type Writer struct {
	dir   string
	parts []string
	// bytesMax and entriesMax are what the copy may have.
	bytesMax, entriesMax int64
	done                 Copied
	// folders are the directories that were made. Their owners, modes and times are set at the end.
	folders []*api.DiskEntry
	// names are the first names of files with several names, by inode.
	names map[uint64]*api.DiskEntry
	// open is the file of the last piece.
	open *api.DiskEntry
	// parent is the open directory of the last entry, at is its path.
	parent *os.File
	at     []byte
}

// Copied is what a copy has so far.
type Copied struct {
	// Files counts files, links and directories, Bytes the data in them.
	Files, Bytes int64
}

// NewWriter returns a writer of the parts of an allocation below dir, with at most sizeMB of data. It makes nothing.
func NewWriter(dir string, tasks []string, sizeMB int) *Writer {
	size := int64(sizeMB) << 20
	return &Writer{dir: dir, parts: Parts(tasks), bytesMax: size, entriesMax: min(max(entriesMin, size>>10), entriesTop), names: map[uint64]*api.DiskEntry{}}
}

// Copied returns what the copy has.
func (w *Writer) Copied() Copied { return w.done }

// leave closes the directory of the last entry.
func (w *Writer) leave() {
	if w.parent != nil {
		_ = w.parent.Close()
	}
	w.parent, w.at = nil, nil
}

// Write makes the files of a page. After an error the same page may be written again. An error of class fault.TooLarge means
// that the data exceeds the ephemeral disk, one of class fault.Exhausted that the disk of the node is full, one of class
// fault.Invalid that the page is wrong.
func (w *Writer) Write(page *api.DiskDataResponse) error {
	before, folders, open := w.done, len(w.folders), w.open
	undo := func(err error) error {
		w.done, w.folders, w.open = before, w.folders[:folders], open
		return w.full(err)
	}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return undo(fmt.Errorf("copy data: %w", err))
	}
	if err := w.fits(page); err != nil {
		return undo(err)
	}
	defer w.leave()
	for _, e := range page.Entries {
		if err := w.entry(e); err != nil {
			return undo(fmt.Errorf("copy %q: %w", e.Path, err))
		}
	}
	return nil
}

// fits returns an error when the disk would have less than freeMin free with the page.
func (w *Writer) fits(page *api.DiskDataResponse) error {
	need := int64(freeMin)
	for _, e := range page.Entries {
		need += int64(len(e.Data))
	}
	var st unix.Statfs_t
	if err := unix.Statfs(w.dir, &st); err != nil {
		return err
	}
	if free := int64(st.Bavail) * st.Bsize; st.Blocks > 0 && free < need { // 0 blocks: a file system without limit
		return fmt.Errorf("%w: %.1f MB are free, %.1f MB come next, and %d MB must stay free", unix.ENOSPC, float64(free)/(1<<20), float64(need-freeMin)/(1<<20), freeMin>>20)
	}
	return nil
}

// full makes the error of a full disk one of class fault.Exhausted.
func (w *Writer) full(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fault.New(fault.Exhausted, "the disk of the node is full after %.1f MB of the data: %v", float64(w.done.Bytes)/(1<<20), err)
	}
	return err
}

// Next returns where the page after this one begins. It skips the rest of a file that is there under another name.
func (w *Writer) Next(page *api.DiskDataResponse) api.DiskCursor {
	next := page.Cursor
	if n := len(page.Entries); n > 0 && next.Offset > 0 && w.another(page.Entries[n-1]) != nil {
		next.Offset = 0
	}
	return next
}

// Finish sets what directories have when all their entries are made, and returns when everything is on the disk.
func (w *Writer) Finish() error {
	defer w.leave()
	for _, e := range slices.Backward(w.folders) {
		if err := w.enter(filepath.Dir(string(e.Path))); err != nil {
			return fmt.Errorf("copy %q: %w", e.Path, err)
		}
		fd, err := openDir(int(w.parent.Fd()), filepath.Base(string(e.Path)))
		if err != nil {
			return fmt.Errorf("copy %q: %w", e.Path, err)
		}
		if err := errors.Join(finish(fd, e, 0o7777), unix.Close(fd)); err != nil {
			return w.full(fmt.Errorf("copy %q: %w", e.Path, err))
		}
	}
	w.leave()
	f, err := os.Open(w.dir)
	if err != nil {
		return fmt.Errorf("copy data: %w", err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return w.full(fmt.Errorf("copy data: %w", err))
	}
	return nil
}

func (w *Writer) entry(e *api.DiskEntry) error {
	if err := w.check(e); err != nil {
		return err
	}
	if err := w.enter(filepath.Dir(string(e.Path))); err != nil {
		return err
	}
	at, name := int(w.parent.Fd()), filepath.Base(string(e.Path))
	switch e.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if err := unix.Mkdirat(at, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		w.folders = append(w.folders, &api.DiskEntry{Path: e.Path, Mode: e.Mode, UID: e.UID, GID: e.GID, ModTime: e.ModTime})
	case unix.S_IFLNK:
		err := again(at, name, func() error { return unix.Symlinkat(string(e.Target), at, name) })
		if err == nil {
			err = own(unix.Fchownat(at, name, int(e.UID), int(e.GID), unix.AT_SYMLINK_NOFOLLOW))
		}
		if err == nil {
			err = unix.UtimesNanoAt(at, name, times(e), unix.AT_SYMLINK_NOFOLLOW)
		}
		return err
	default:
		return w.piece(at, name, e)
	}
	return nil
}

// again makes a name that a failed write of the same page may have made already.
func again(at int, name string, create func() error) error {
	err := create()
	if errors.Is(err, unix.EEXIST) {
		if err = unix.Unlinkat(at, name, 0); err == nil {
			err = create()
		}
	}
	return err
}

// check refuses what no reader sends, and what exceeds the limits, and counts the entry.
func (w *Writer) check(e *api.DiskEntry) error {
	kind := e.Mode & unix.S_IFMT
	elements := split(e.Path)
	strange := len(e.Path) > pathMax || bytes.IndexByte(e.Path, 0) >= 0 || len(elements) < 2 || len(elements) > depthMax+4 ||
		!bytes.Equal(bytes.Join(elements, []byte("/")), e.Path) || !slices.Contains(w.parts, string(bytes.Join(elements[:2], []byte("/"))))
	for _, name := range elements {
		strange = strange || len(name) == 0 || string(name) == "." || string(name) == ".."
	}
	switch {
	case strange, len(elements) == 2 && kind != unix.S_IFDIR:
		return fault.New(fault.Invalid, "it is no path of the data")
	case kind != unix.S_IFDIR && kind != unix.S_IFREG && kind != unix.S_IFLNK:
		return fault.New(fault.Invalid, "mode %o is not that of a directory, a file or a link", e.Mode)
	case kind == unix.S_IFLNK && leadsOutside(e.Path, e.Target):
		return fault.New(fault.Invalid, "the link leads outside of the allocation")
	case e.Size < 0 || e.Offset < 0 || e.Offset > e.Size || int64(len(e.Data)) > e.Size-e.Offset || kind != unix.S_IFREG && len(e.Data) > 0:
		return fault.New(fault.Invalid, "%d bytes at %d do not fit a file of %d bytes", len(e.Data), e.Offset, e.Size)
	}
	if w.open == nil || !bytes.Equal(w.open.Path, e.Path) {
		w.done.Files++
	}
	if kind != unix.S_IFREG || w.another(e) == nil {
		w.done.Bytes += int64(len(e.Data))
	}
	switch {
	case w.done.Bytes > w.bytesMax:
		return fault.New(fault.TooLarge, "the data exceeds the %d MB of the ephemeral disk", w.bytesMax>>20)
	case w.done.Files > w.entriesMax:
		return fault.New(fault.TooLarge, "the data has more than %d files", w.entriesMax)
	}
	return nil
}

// another returns the entry of an equal file that is there under another name, or nil.
func (w *Writer) another(e *api.DiskEntry) *api.DiskEntry {
	if first := w.names[e.Inode]; e.Inode != 0 && first != nil && first.Size == e.Size && first.ModTime == e.ModTime && !bytes.Equal(first.Path, e.Path) {
		return first
	}
	return nil
}

// piece writes a piece of a file, or gives the file that is there another name.
func (w *Writer) piece(at int, name string, e *api.DiskEntry) error {
	next := w.open != nil && bytes.Equal(w.open.Path, e.Path)
	if next && (w.open.Size != e.Size || w.open.ModTime != e.ModTime) {
		return ErrChanged
	}
	w.open = &api.DiskEntry{Path: e.Path, Size: e.Size, ModTime: e.ModTime}
	if first := w.another(e); first != nil {
		if next { // the pieces of one page
			return nil
		}
		top, err := unix.Open(w.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(top)
		return again(at, name, func() error { return unix.Linkat(top, string(first.Path), at, name, 0) })
	}
	fd, err := unix.Openat(at, name, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if err := f.Truncate(e.Size); err != nil {
		return err
	}
	if _, err := f.WriteAt(e.Data, e.Offset); err != nil {
		return err
	}
	if err := finish(fd, e, 0o1777); err != nil {
		return err
	}
	if e.Inode != 0 && w.names[e.Inode] == nil {
		w.names[e.Inode] = w.open
	}
	return f.Close()
}

// finish sets the owner, the permissions and the time of an open file or directory.
func finish(fd int, e *api.DiskEntry, mask uint32) error {
	if err := own(unix.Fchown(fd, int(e.UID), int(e.GID))); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, e.Mode&mask); err != nil {
		return err
	}
	return unix.UtimesNanoAt(fd, "", times(e), unix.AT_EMPTY_PATH)
}

// own is the result of a change of the owner, which only root can do.
func own(err error) error {
	if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
		return nil
	}
	return err
}

func times(e *api.DiskEntry) []unix.Timespec {
	t := unix.NsecToTimespec(e.ModTime)
	return []unix.Timespec{t, t}
}

// enter opens the directory of an entry, which an earlier one has made, or which the parts lie in.
func (w *Writer) enter(path string) error {
	if w.parent != nil && string(w.at) == path {
		return nil
	}
	w.leave()
	top, err := unix.Open(w.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	if !bytes.Contains([]byte(path), []byte("/")) {
		if err := unix.Mkdirat(top, path, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	fd, err := openDir(top, path)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return fault.New(fault.Invalid, "its directory was not sent before it")
	}
	if err != nil {
		return err
	}
	w.parent, w.at = os.NewFile(uintptr(fd), path), []byte(path)
	return nil
}
