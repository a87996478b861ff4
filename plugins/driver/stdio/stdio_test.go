package stdio_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/stdio"
)

// run runs a script on the streams of a command.
func run(t *testing.T, c *driver.Command, script string) error {
	t.Helper()
	s, err := stdio.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fds := s.Process()
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{uintptr(fds[0]), uintptr(fds[1]), uintptr(fds[2])},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: c.TTY},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	s.Copy(ctx, cancel)
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	if s.Finish(ctx) != nil {
		return context.Cause(ctx)
	}
	return nil
}

func TestStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tty                   bool
		input                 io.Reader
		script, out, errorOut string
	}{
		"apart":             {script: "echo out; echo err >&2", out: "out\n", errorOut: "err\n"},
		"no input":          {script: "cat; echo end", out: "end\n"},
		"input":             {input: strings.NewReader("x"), script: "cat; echo end", out: "xend\n"},
		"input not read":    {input: bytes.NewReader(make([]byte, 1<<20)), script: "echo end", out: "end\n"},
		"child keeps them":  {script: "sleep 2 & echo end", out: "end\n"},
		"terminal":          {tty: true, script: "echo out; echo err >&2; test -t 0 && echo terminal", out: "out\r\nerr\r\nterminal\r\n"},
		"input of terminal": {tty: true, input: strings.NewReader("x\n"), script: "stty -echo; cat >/dev/null; echo end", out: "end\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errorOut bytes.Buffer
			err := run(t, &driver.Command{TTY: c.tty, Stdin: c.input, Stdout: &out, Stderr: &errorOut}, c.script)
			// What was typed before the script has turned the echo off comes back.
			if got := strings.TrimPrefix(out.String(), "x\r\n"); err != nil || got != c.out || errorOut.String() != c.errorOut {
				t.Errorf("error %v, output %q and %q", err, out.String(), errorOut.String())
			}
		})
	}
}

func TestWholeOutput(t *testing.T) {
	t.Parallel()
	for _, tty := range []bool{false, true} {
		var out bytes.Buffer
		if err := run(t, &driver.Command{TTY: tty, Stdout: &out}, "seq 100000"); err != nil || strings.Count(out.String(), "\n") != 100000 {
			t.Errorf("terminal %v: %d lines, error %v", tty, strings.Count(out.String(), "\n"), err)
		}
	}
}

type slow struct {
	ended  atomic.Bool
	closed chan struct{}
	err    error
}

func (w *slow) Write(b []byte) (int, error) {
	<-w.closed
	w.ended.Store(true)
	return len(b), w.err
}

func TestErrorOfAWriter(t *testing.T) {
	t.Parallel()
	w := &slow{closed: make(chan struct{}), err: errors.New("full")}
	close(w.closed)
	if err := run(t, &driver.Command{Stdout: w}, "echo x; sleep 0.1; echo y"); !errors.Is(err, w.err) {
		t.Errorf("error %v, want that of the writer", err)
	}
}

func TestNothingIsWrittenAfterClose(t *testing.T) {
	t.Parallel()
	w := &slow{closed: make(chan struct{})}
	s, err := stdio.Open(&driver.Command{Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Write(s.Process()[1], []byte("x")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	s.Copy(ctx, cancel)
	time.AfterFunc(50*time.Millisecond, func() { close(w.closed) })
	cancel(nil)
	if err := s.Finish(ctx); err == nil {
		t.Error("it does not end with its context")
	}
	s.Close()
	select {
	case <-w.closed:
		if !w.ended.Load() {
			t.Error("a write is under way after the end")
		}
	default: // nothing had been read
	}
}
