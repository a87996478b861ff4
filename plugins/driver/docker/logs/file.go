package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Position is a place in the log files of a stream.
type Position struct {
	// N is the number of the file, Offset the bytes in it.
	N      int
	Offset int64
}

// file is the log of one stream: at most keep files of at most max bytes. The last one grows.
type file struct {
	dir, prefix string
	max         int64
	keep        int
	at          Position
	f           *os.File
	// skip counts the bytes that the files have already.
	skip int64
}

// openFile continues the log of a stream, behind its last byte.
func openFile(dir, prefix string, maxBytes int64, keep int) (*file, error) {
	l := &file{dir: dir, prefix: prefix, max: maxBytes, keep: keep}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("log files: %w", err)
	}
	for _, e := range entries {
		number, ours := strings.CutPrefix(e.Name(), prefix+".")
		if n, err := strconv.Atoi(number); ours && err == nil && n > l.at.N && e.Type().IsRegular() {
			l.at.N = n
		}
	}
	return l, l.open()
}

func (l *file) name(n int) string { return l.prefix + "." + strconv.Itoa(n) }

// openDir opens the directory of the log files; a link in its place is refused.
func openDir(path string) (int, error) {
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return dir, nil
}

// open opens the file with the present number.
func (l *file) open() error {
	dir, err := openDir(l.dir)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	name := l.name(l.at.N)
	for range 2 {
		const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
		fd, err := unix.Openat(dir, name, flags, 0o644)
		var st unix.Stat_t
		if err == nil && unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			l.f, l.at.Offset = os.NewFile(uintptr(fd), name), st.Size
			return nil
		}
		if err == nil {
			unix.Close(fd)
		} else if !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENXIO) {
			return &fs.PathError{Op: "open", Path: name, Err: err}
		}
		if err := unix.Unlinkat(dir, name, 0); err != nil {
			return &fs.PathError{Op: "replace", Path: name, Err: err}
		}
	}
	return fmt.Errorf("log file %s: it is not a regular file", name)
}

// rotate begins the next file and removes the oldest.
func (l *file) rotate() error {
	l.close()
	l.at = Position{N: l.at.N + 1}
	if err := l.open(); err != nil {
		return err
	}
	if dir, err := openDir(l.dir); err == nil {
		_ = unix.Unlinkat(dir, l.name(l.at.N-l.keep), 0)
		unix.Close(dir)
	}
	return nil
}

// write appends what the files do not have yet.
func (l *file) write(p []byte) error {
	known := min(l.skip, int64(len(p)))
	l.skip -= known
	for p = p[known:]; len(p) > 0; {
		if l.f == nil {
			if err := l.open(); err != nil {
				return err
			}
		}
		if l.at.Offset >= l.max {
			if err := l.rotate(); err != nil {
				return err
			}
		}
		part := p[:min(int64(len(p)), l.max-l.at.Offset)]
		n, err := l.f.Write(part)
		l.at.Offset += int64(n)
		if p = p[n:]; err != nil {
			return err
		}
	}
	return nil
}

// since counts the bytes behind a position. A file that was removed by rotation was full.
func (l *file) since(from Position) int64 {
	if from.N > l.at.N {
		return 0
	}
	var sum int64
	for n := from.N; n <= l.at.N; n++ {
		switch info, err := os.Lstat(l.dir + "/" + l.name(n)); {
		case n == l.at.N:
			sum += l.at.Offset
		case err == nil:
			sum += info.Size()
		default:
			sum += l.max
		}
	}
	return max(sum-from.Offset, 0)
}

func (l *file) close() {
	if l.f != nil {
		_ = l.f.Close()
		l.f = nil
	}
}
