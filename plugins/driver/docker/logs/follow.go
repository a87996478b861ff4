package logs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/plugins/driver"
)

const (
	// savePeriod is the time between two stores of the cursor, retryPause that before the engine is asked again.
	savePeriod = time.Second
	retryPause = time.Second
	// frameMax bounds a piece of output; the engine sends 16 KiB at most.
	frameMax = 16 << 20

	defaultMaxFiles      = 10
	defaultMaxFileSizeMB = 10
)

// Follower copies the output of one container.
type Follower struct {
	Engine *client.Client
	// Container is its id; TTY is set when it has a terminal, whose output is one stream.
	Container string
	TTY       bool
	// Logs and Task define the files.
	Logs driver.Logs
	Task string
	// Cursor is the path of the file that keeps the cursor.
	Cursor string
	// Exited is closed when the container has exited.
	Exited <-chan struct{}
	Log    hclog.Logger

	mu       sync.Mutex
	cursor   cursor
	dirty    bool
	out, err *file
	failed   bool
}

// cursor records up to where the log files are written.
type cursor struct {
	// Since is the time of the last piece, in nanoseconds since 1970; Same counts the pieces of that time.
	Since int64
	Same  int
	// Out and Err are where the log files ended then.
	Out, Err Position
}

// Run copies until the container has exited and all its output is written, or until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	if err := f.open(); err != nil {
		f.Log.Warn("the output of a container is not kept", "container", f.Container, "error", err)
		return
	}
	saving, stop := context.WithCancel(ctx)
	var saver sync.WaitGroup
	saver.Go(func() { f.saveRegularly(saving) })
	defer func() {
		stop()
		saver.Wait()
		f.save()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.out.close()
		f.err.close()
	}()
	for ctx.Err() == nil {
		last := f.exited()
		err := f.copy(ctx)
		if err != nil && strings.Contains(err.Error(), "does not support reading") {
			f.Log.Info("the logging driver of a container cannot be read: no output is kept", "container", f.Container)
			return
		}
		if last && (err == nil || !retry(err)) {
			return
		}
		select {
		case <-f.Exited:
			if last { // the engine does not answer
				pause(ctx)
			}
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
}

func pause(ctx context.Context) {
	select {
	case <-time.After(retryPause):
	case <-ctx.Done():
	}
}

// retry reports whether the engine may have the output of an exited container later.
func retry(err error) bool { return client.IsErrConnectionFailed(err) }

func (f *Follower) exited() bool {
	select {
	case <-f.Exited:
		return true
	default:
		return false
	}
}

// open opens the log files, and finds out which bytes they have that the cursor does not count.
func (f *Follower) open() (err error) {
	size, keep := int64(cmp.Or(f.Logs.MaxFileSizeMB, defaultMaxFileSizeMB))<<20, cmp.Or(f.Logs.MaxFiles, defaultMaxFiles)
	if f.out, err = openFile(f.Logs.Dir, f.Task+".stdout", size, keep); err != nil {
		return err
	}
	if f.err, err = openFile(f.Logs.Dir, f.Task+".stderr", size, keep); err != nil {
		return err
	}
	text, err := os.ReadFile(f.Cursor)
	if err == nil && json.Unmarshal(text, &f.cursor) == nil {
		f.out.skip, f.err.skip = f.out.since(f.cursor.Out), f.err.since(f.cursor.Err)
		return nil
	}
	// Where the container's output begins is known before the first byte is written.
	f.cursor, f.dirty = cursor{Out: f.out.at, Err: f.err.at}, true
	f.save()
	return nil
}

func (f *Follower) saveRegularly(ctx context.Context) {
	tick := time.NewTicker(savePeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.save()
		case <-ctx.Done():
			return
		}
	}
}

// save stores the cursor. While bytes are skipped it stays as it is: it and the files still fit together.
func (f *Follower) save() {
	f.mu.Lock()
	if !f.dirty || f.out.skip > 0 || f.err.skip > 0 {
		f.mu.Unlock()
		return
	}
	f.dirty = false
	f.cursor.Out, f.cursor.Err = f.out.at, f.err.at
	text, _ := json.Marshal(f.cursor) // numbers only
	f.mu.Unlock()
	err := os.MkdirAll(filepath.Dir(f.Cursor), 0o700)
	if err == nil {
		err = os.WriteFile(f.Cursor+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(f.Cursor+".new", f.Cursor)
	}
	if err != nil {
		f.Log.Warn("store how far the output of a container is written", "container", f.Container, "error", err)
	}
}

// Forget removes a cursor.
func Forget(cursor string) {
	_ = os.Remove(cursor)
	_ = os.Remove(cursor + ".new")
}

// copy reads the container's output from the cursor on, until it ends.
func (f *Follower) copy(ctx context.Context) error {
	f.mu.Lock()
	since, same := f.cursor.Since, f.cursor.Same
	f.mu.Unlock()
	options := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: true}
	if since > 0 {
		options.Since = fmt.Sprintf("%d.%09d", since/1e9, since%1e9)
	}
	reply, err := f.Engine.ContainerLogs(ctx, f.Container, options)
	if err != nil {
		return err
	}
	defer reply.Close()
	from := bufio.NewReaderSize(reply, 64<<10)
	next := nextFrame
	if f.TTY {
		next = nextLine
	}
	for {
		kind, piece, err := next(from)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		at, text := timeOf(piece)
		switch {
		case at > 0 && at < since:
			continue
		case at == since && same > 0:
			same--
			continue
		}
		f.keep(kind, at, text)
	}
}

// keep writes a piece to its stream and moves the cursor. A piece that cannot be written is lost: the output of a task
// must not stop it.
func (f *Follower) keep(kind byte, at int64, text []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := f.out
	if kind == 2 {
		to = f.err
	}
	err := to.write(text)
	if err != nil && !f.failed {
		f.Log.Warn("output of a container is lost", "container", f.Container, "error", err)
	}
	f.failed = err != nil
	switch {
	case at > f.cursor.Since:
		f.cursor.Since, f.cursor.Same = at, 1
	case at == f.cursor.Since:
		f.cursor.Same++
	}
	f.dirty = true
}

// nextFrame reads a piece of one of two streams: one byte is its kind, four its length.
func nextFrame(from *bufio.Reader) (kind byte, piece []byte, err error) {
	var header [8]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(header[4:])
	if size > frameMax {
		return 0, nil, fmt.Errorf("the engine sends %d bytes of output at once", size)
	}
	piece = make([]byte, size)
	_, err = io.ReadFull(from, piece)
	return header[0], piece, err
}

// nextLine reads a piece of the only stream.
func nextLine(from *bufio.Reader) (byte, []byte, error) {
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > frameMax {
			if len(line) > 0 && errors.Is(err, io.EOF) {
				err = nil
			}
			return 1, line, err
		}
	}
}

// timeOf cuts the time from a piece; 0 when it has none.
func timeOf(piece []byte) (int64, []byte) {
	stamp, text, ok := bytes.Cut(piece, []byte{' '})
	if !ok {
		return 0, piece
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return 0, piece
	}
	return at.UnixNano(), text
}
