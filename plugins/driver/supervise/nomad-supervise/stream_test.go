package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// streamFrom is the log of what comes from a descriptor.
func streamFrom(t *testing.T, pipe int) (l *stream, file string) {
	t.Helper()
	dir := t.TempDir()
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	l = newStream(pipe, fd, dir+"/t.stdout", &frame.Spec{MaxFileBytes: 10 << 20, MaxFiles: 2})
	t.Cleanup(func() {
		l.close()
		_ = syscall.Close(fd)
	})
	return l, filepath.Join(dir, "t.stdout.0")
}

// TestLogsCloseEachDescriptorOnce: a number that is closed again may be that of the pipe by which the record of the exit is
// told, and the supervising process would never end.
func TestLogsCloseEachDescriptorOnce(t *testing.T) {
	dir := t.TempDir()
	dirFD, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	spec := &frame.Spec{MaxFileBytes: 10 << 20, MaxFiles: 2}
	l, failed := newLogs(newStream(-1, dirFD, dir+"/t.stdout", spec), newStream(-1, dirFD, dir+"/t.stderr", spec), dirFD)
	if failed != nil {
		t.Fatal(failed)
	}
	var st syscall.Stat_t
	if l.stdout.close(); syscall.Fstat(dirFD, &st) != nil {
		t.Fatal("the directory is closed while the other log uses it")
	}
	if l.close(); syscall.Fstat(dirFD, &st) != syscall.EBADF {
		t.Error("the directory stays open")
	}
}

// Who writes to the log of a task from outside may be faster than it is read.
func TestEndOfALogWaitsForNobody(t *testing.T) {
	zero, err := syscall.Open("/dev/zero", syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, _ := streamFrom(t, zero)
	done := make(chan struct{})
	go func() { defer close(done); l.drain() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
}

func TestEndOfALogHasAllThatWasWritten(t *testing.T) {
	const size = 1 << 20
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(p[1]) // somebody holds it open
	if _, _, err := syscall.Syscall(syscall.SYS_FCNTL, uintptr(p[1]), 1031, size); err != 0 {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("a line\n"), size/8)
	if n, err := syscall.Write(p[1], text); err != nil || n != len(text) {
		t.Fatal(n, err)
	}
	l, file := streamFrom(t, p[0])
	l.drain()
	if got, _ := os.ReadFile(file); !bytes.Equal(got, text) {
		t.Errorf("the log has %d bytes of %d", len(got), len(text))
	}
}
