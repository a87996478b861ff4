package inspect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

const (
	// sinceStandard is the age of the first line of a journal unless the request has another one, at most sinceMax.
	sinceStandard, sinceMax = 72 * time.Hour, 366 * 24 * time.Hour
	// stopMax is how long the program that reads the journal may keep its output open after it was killed.
	stopMax = 5 * time.Second
	// complaintMax bounds the text of an error of that program in bytes.
	complaintMax = 400
)

// unitName matches the systemd units whose journal may be read: that of another service is not the agent's to show.
var unitName = lazy.Regexp(`^[A-Za-z0-9_][A-Za-z0-9_.@:-]{0,127}$`)

// CheckExport reports what is wrong with a request for a stored log.
func CheckExport(r *api.AgentMonitorRequest) error {
	switch {
	case r.OnDisk && r.ServiceName != "":
		return fault.New(fault.Invalid, "Cannot target journald and nomad log file simultaneously")
	case !r.OnDisk && r.ServiceName == "":
		return fault.New(fault.Invalid, "Either -service-name or -on-disk must be set")
	case r.OnDisk && r.Follow:
		return fault.New(fault.Invalid, "Cannot follow log file")
	case r.LogsSince < 0 || r.LogsSince > sinceMax:
		return fault.New(fault.Invalid, "logs_since is %s: 0 to %s are possible", r.LogsSince, sinceMax)
	case !r.OnDisk && (!unitName().MatchString(r.ServiceName) || !strings.Contains(strings.ToLower(r.ServiceName), "nomad")):
		return fault.New(fault.Invalid, "service name %.140q is not the name of a systemd unit that contains nomad", r.ServiceName)
	}
	return nil
}

// export reads a stored log.
func (a *Agent) export(r *api.AgentMonitorRequest) (*session, error) {
	if err := CheckExport(r); err != nil {
		return nil, err
	}
	if r.OnDisk {
		return openFile(a.conf.LogFile)
	}
	return openJournal(r)
}

// logFile is the log file as it was when the session began. The file may be renamed in the meantime.
type logFile struct {
	file *os.File
	size int64
}

func openFile(path string) (*session, error) {
	if path == "" {
		return nil, fault.New(fault.NotFound, "this agent has no log_file: name its systemd unit with service_name")
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() { // opening a pipe would wait for a writer
		return nil, fault.New(fault.NotFound, "log_file %s is not a regular file", path)
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(path)
	}
	if err == nil {
		info, err = f.Stat()
	}
	if err != nil {
		if f != nil {
			_ = f.Close()
		}
		return nil, fault.New(fault.NotFound, "read log_file: %w", err)
	}
	return &session{source: &logFile{f, info.Size()}, remove: func() { _ = f.Close() }}, nil
}

func (l *logFile) piece(position int64) ([]byte, int64, bool, error) {
	if position < 0 || position > l.size {
		return nil, 0, false, fault.New(fault.Invalid, "position %d is not in the log file, which has %d bytes", position, l.size)
	}
	data := make([]byte, min(pieceMax, l.size-position))
	n, err := l.file.ReadAt(data, position)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, false, fmt.Errorf("read log_file: %w", err)
	}
	next := position + int64(n)
	return data[:n], next, next >= l.size || n == 0, nil
}

// journal is the output of the program that reads the journal. The program waits until its output is read.
type journal struct {
	monitor
	ctx   context.Context //nolint:containedctx // the life of the program
	space chan struct{}
	// ended is set when the program has ended, with its error.
	ended bool
	err   error
}

func openJournal(r *api.AgentMonitorRequest) (*session, error) {
	program, err := exec.LookPath("journalctl")
	if err != nil {
		return nil, fault.New(fault.Unimplemented, "the host of the agent has no journal: journalctl is not installed; read the log file with on_disk")
	}
	since := time.Now().Add(-cmp.Or(r.LogsSince, sinceStandard))
	args := []string{"--unit=" + r.ServiceName, fmt.Sprintf("--since=@%d", since.Unix()), "--no-pager", "--output=short-iso"}
	if r.Follow {
		args = append(args, "--follow", "--no-tail")
	}
	ctx, cancel := context.WithCancel(context.Background())
	j := &journal{monitor: monitor{news: make(chan struct{}, 1)}, ctx: ctx, space: make(chan struct{}, 1)}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	var complaint complaint
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = j, &complaint, stopMax
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fault.New(fault.Unavailable, "read the journal: %w", err)
	}
	go func() {
		err := cmd.Wait()
		if err != nil {
			err = fault.New(fault.Unavailable, "read the journal: %w: %s", err, complaint.text())
		}
		j.end(err)
	}()
	return &session{source: j, news: j.news, remove: cancel}, nil
}

// Write implements [io.Writer]. It waits until there is space or the session ends.
func (j *journal) Write(p []byte) (int, error) {
	for {
		j.mu.Lock()
		if len(j.kept)+len(p) <= keptMax || len(j.kept) == 0 {
			j.kept = append(j.kept, p...)
			j.mu.Unlock()
			signal(j.news)
			return len(p), nil
		}
		j.mu.Unlock()
		select {
		case <-j.space:
		case <-j.ctx.Done():
			return 0, j.ctx.Err()
		}
	}
}

func (j *journal) end(err error) {
	j.mu.Lock()
	j.ended, j.err = true, err
	j.mu.Unlock()
	signal(j.news)
}

func (j *journal) piece(position int64) ([]byte, int64, bool, error) {
	data, next, _, err := j.monitor.piece(position)
	signal(j.space)
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case err != nil || len(data) > 0 || !j.ended || len(j.kept) > 0:
		return data, next, false, err
	case j.err != nil:
		return nil, 0, false, j.err
	}
	return nil, next, true, nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// complaint keeps the begin of what a program writes about its failure.
type complaint struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

// Write implements [io.Writer].
func (c *complaint) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Write(p[:min(len(p), complaintMax-min(complaintMax, c.kept.Len()))])
	return len(p), nil
}

func (c *complaint) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(strings.Fields(c.kept.String()), " ")
}
