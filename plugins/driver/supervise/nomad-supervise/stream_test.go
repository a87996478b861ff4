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

// outputs is a goroutine that moves what is written to a pipe into logs, as the supervising process does.
func outputs(tb testing.TB, spec *frame.Spec) (dir string, in int, end func()) {
	tb.Helper()
	dir = tb.TempDir()
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		tb.Fatal(err)
	}
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		tb.Fatal(err)
	}
	if err := syscall.SetNonblock(p[0], true); err != nil {
		tb.Fatal(err)
	}
	l, failed := newLogs(newStream(p[0], fd, dir+"/t.stdout", spec), newStream(-1, fd, dir+"/t.stderr", spec), fd)
	if failed != nil {
		tb.Fatal(failed)
	}
	done := make(chan struct{})
	go func() { defer close(done); l.run() }()
	return dir, p[1], func() {
		l.ask(orderDrain)
		l.ask(orderClose)
		<-done
		_ = syscall.Close(p[1])
	}
}

// pour writes zeros to a pipe.
func pour(tb testing.TB, to int, size int) {
	tb.Helper()
	zeros := make([]byte, 64<<10)
	for left := size; left > 0; {
		n, err := syscall.Write(to, zeros[:min(left, len(zeros))])
		if err != nil {
			tb.Fatal(err)
		}
		left -= n
	}
}

// TestOutputWithoutLineFeedsIsRotated: a task that writes at full speed and ends no line has as many files of as many bytes as
// its logs block permits, and the last byte is in the newest.
func TestOutputWithoutLineFeedsIsRotated(t *testing.T) {
	const most, keep = 1 << 20, 3
	dir, in, end := outputs(t, &frame.Spec{MaxFileBytes: most, MaxFiles: keep})
	pour(t, in, 64<<20)
	if n, err := syscall.Write(in, []byte("last")); n != 4 {
		t.Fatal(err)
	}
	end()
	files, err := filepath.Glob(dir + "/t.stdout.*") // sorted: the indexes have two digits
	if err != nil || len(files) != keep {
		t.Fatalf("files %q, want %d: %v", files, keep, err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Size() > most {
			t.Errorf("%s: %+v, want at most %d bytes: %v", file, info, most, err)
		}
	}
	if body, err := os.ReadFile(files[keep-1]); err != nil || !bytes.HasSuffix(body, []byte("last")) {
		t.Errorf("%s does not end with what was written last: %v", files[keep-1], err)
	}
}

// BenchmarkOutput is how fast a task may write its output, without line feeds, into files of 10 MB of which 10 are kept.
func BenchmarkOutput(b *testing.B) {
	const size = 1 << 30
	for b.Loop() {
		_, in, end := outputs(b, &frame.Spec{MaxFileBytes: 10 << 20, MaxFiles: 10})
		pour(b, in, size)
		end()
	}
	b.ReportMetric(float64(b.N)*size/1e6/b.Elapsed().Seconds(), "MB/s")
	b.ReportMetric(0, "ns/op")
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
