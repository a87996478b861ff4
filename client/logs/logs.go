package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	defaultLimit = 64 << 10
	maxLimit     = api.PieceMax
	maxWait      = 5 * time.Minute
	lookEvery    = 50 * time.Millisecond
)

// Request names a log and the piece of it to read.
type Request struct {
	// Open opens the logs directory of the allocation. An error of class fault.NotFound means that there is none yet.
	Open func() (*os.File, error)
	Task string
	// Kind is stdout or stderr.
	Kind string
	// Origin (start or end) and Offset set where to begin while Cursor is not started. Offset is the distance in bytes
	// from the beginning or back from the end, over all files. A request that waits begins at offset 0 from the end
	// with the first byte of the newest file: that is what `alloc logs -f` of the official command line sends.
	Origin string
	Offset int64
	Cursor api.LogCursor
	// Limit bounds the piece in bytes; 0 means 64 KiB.
	Limit int64
	// Wait bounds how long Read waits for data at the end of the log.
	Wait time.Duration
	// Done, when not nil, ends the wait: nothing is written after it is closed.
	Done <-chan struct{}
}

// Piece is a part of a log. An empty one has the cursor of the next byte to come.
type Piece struct {
	Data []byte
	// File is the path of the file that Data comes from, relative to the directory of the allocation.
	File   string
	Cursor api.LogCursor
	// End is set when the cursor stands at the end of the newest file.
	End bool
}

// Read returns the next piece. An error of class fault.NotFound means that there is no log yet.
func Read(ctx context.Context, r Request) (*Piece, error) {
	if err := check(&r); err != nil {
		return nil, err
	}
	deadline := time.NewTimer(min(r.Wait, maxWait))
	defer deadline.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last := r.Wait <= 0
	for {
		p, err := read(&r)
		if err != nil && !errors.Is(err, fault.NotFound) || err == nil && len(p.Data) > 0 || last {
			return p, err
		}
		if err == nil {
			r.Cursor = p.Cursor
		}
		select {
		case <-tick.C:
		case <-r.Done:
			last = true
		case <-deadline.C:
			last = true
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s of task %s: %w", r.Kind, r.Task, ctx.Err())
		}
	}
}

func check(r *Request) error {
	switch {
	case r.Kind != "stdout" && r.Kind != "stderr":
		return fault.New(fault.Invalid, "log type %q must be stdout or stderr", r.Kind)
	case r.Task == "" || strings.ContainsAny(r.Task, "/\x00"):
		return fault.New(fault.Invalid, "invalid task name %q", r.Task)
	case r.Origin != "" && r.Origin != "start" && r.Origin != "end":
		return fault.New(fault.Invalid, "origin %q must be start or end", r.Origin)
	case r.Offset < 0 || r.Limit < 0 || r.Cursor.Offset < 0 || r.Cursor.Index < 0:
		return fault.New(fault.Invalid, "offset and limit of a log must not be negative")
	}
	r.Limit = min(cmp.Or(r.Limit, defaultLimit), maxLimit)
	return nil
}

// file is one log file as it was when the directory was read.
type file struct {
	index int64
	size  int64
}

// read looks once.
func read(r *Request) (*Piece, error) {
	dir, err := r.Open()
	if errors.Is(err, fault.NotFound) {
		return nil, fault.New(fault.NotFound, "no %s of task %q yet", r.Kind, r.Task)
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	files, err := list(dir, r)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fault.New(fault.NotFound, "no %s of task %q yet", r.Kind, r.Task)
	}
	c := r.Cursor
	if !c.Started {
		c = place(files, r.Origin, r.Offset)
		if newest := files[len(files)-1]; r.Wait > 0 && r.Origin == api.OriginEnd && r.Offset == 0 {
			c = api.LogCursor{Started: true, Index: newest.index}
		}
	}
	for {
		i, known := slices.BinarySearchFunc(files, c.Index, func(f file, index int64) int { return cmp.Compare(f.index, index) })
		if i == len(files) {
			return &Piece{Cursor: c, File: r.path(c.Index), End: true}, nil
		}
		if !known {
			c = api.LogCursor{Started: true, Index: files[i].index}
		}
		data, from, err := readAt(dir, r, c)
		if err != nil {
			return nil, err
		}
		c.Offset = from
		newest := i == len(files)-1
		if len(data) == 0 && !newest {
			c = api.LogCursor{Started: true, Index: files[i+1].index}
			continue
		}
		at := c.Offset
		c.Offset += int64(len(data))
		return &Piece{Data: data, File: r.path(c.Index), Cursor: c, End: newest && at+int64(len(data)) >= files[i].size}, nil
	}
}

func (r *Request) name(index int64) string {
	return r.Task + "." + r.Kind + "." + strconv.FormatInt(index, 10)
}

func (r *Request) path(index int64) string { return "alloc/logs/" + r.name(index) }

// Bounds of a directory, which tasks may fill. Files beyond them are not listed.
const (
	namesMax = 100_000
	filesMax = 10_000
	names    = 1024
)

// list returns the log's files, oldest first.
func list(dir *os.File, r *Request) ([]file, error) {
	prefix := r.Task + "." + r.Kind + "."
	var out []file
	for range namesMax / names {
		chunk, err := dir.Readdirnames(names)
		for _, name := range chunk {
			rest, ok := strings.CutPrefix(name, prefix)
			index, err := strconv.ParseInt(rest, 10, 64)
			if !ok || err != nil || index < 0 || strconv.FormatInt(index, 10) != rest {
				continue
			}
			var st unix.Stat_t
			if unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
				out = append(out, file{index, st.Size})
			}
		}
		if errors.Is(err, io.EOF) || len(out) >= filesMax {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list logs of task %s: %w", r.Task, err)
		}
	}
	slices.SortFunc(out, func(a, b file) int { return cmp.Compare(a.index, b.index) })
	return out, nil
}

// place turns a distance into a cursor; one beyond the log is its other end.
func place(files []file, origin string, offset int64) api.LogCursor {
	if origin == "end" {
		for _, f := range slices.Backward(files) {
			if offset <= f.size {
				return api.LogCursor{Started: true, Index: f.index, Offset: f.size - offset}
			}
			offset -= f.size
		}
		return api.LogCursor{Started: true, Index: files[0].index}
	}
	for _, f := range files {
		if offset < f.size {
			return api.LogCursor{Started: true, Index: f.index, Offset: offset}
		}
		offset -= f.size
	}
	last := files[len(files)-1]
	return api.LogCursor{Started: true, Index: last.index, Offset: last.size}
}

// readAt reads from one file, and returns the offset that it read from: 0 when the file is shorter than the offset. A file
// that does not exist, is not regular, or that a lease of its task blocks counts as empty.
func readAt(dir *os.File, r *Request, c api.LogCursor) (data []byte, from int64, err error) {
	fd, err := unix.Openat(int(dir.Fd()), r.name(c.Index), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.EAGAIN):
		return nil, c.Offset, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read log of task %s: %w", r.Task, err)
	}
	f := os.NewFile(uintptr(fd), r.name(c.Index))
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, c.Offset, err
	}
	if from = c.Offset; info.Size() < from {
		from = 0
	}
	data = make([]byte, min(r.Limit, info.Size()-from))
	n, err := f.ReadAt(data, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("read log of task %s: %w", r.Task, err)
	}
	return data[:n], from, nil
}
