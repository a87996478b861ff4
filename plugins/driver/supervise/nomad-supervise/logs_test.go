package main

import (
	"bytes"
	"syscall"
	"testing"
	"time"
)

// hungLogs is a supervising process whose log is a full pipe: it hangs until somebody reads it.
func hungLogs(t *testing.T) (s *supervisor, task, disk int) {
	t.Helper()
	var out, log [2]int
	if err := syscall.Pipe2(out[:], syscall.O_NONBLOCK|syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Pipe2(log[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	stdout, _ := streamFrom(t, out[0])
	stderr, _ := streamFrom(t, -1)
	_ = syscall.Close(stdout.file)
	stdout.file, stdout.size = log[1], 0
	say(t, log[1], ".", pipeSize)
	l, f := newLogs(stdout, stderr, -1)
	if f != nil {
		t.Fatal(f)
	}
	s = &supervisor{logs: l, listen: -1, killed: true, reaper: newReaper(0), lease: lease{home: -1, timer: -1, file: -1}}
	for i := range s.agents {
		s.agents[i].fd = -1
	}
	ended := make(chan struct{})
	go func() { defer close(ended); l.run() }()
	t.Cleanup(func() {
		_ = syscall.Close(log[0]) // who writes ends with an error
		l.ask(orderClose)
		<-ended
	})
	return s, out[1], log[0]
}

func say(t *testing.T, to int, what string, size int) {
	t.Helper()
	if n, err := syscall.Write(to, bytes.Repeat([]byte(what), size)); err != nil || n != size {
		t.Fatal(n, err)
	}
}

// read reads from the log.
func read(t *testing.T, disk, size int) {
	t.Helper()
	for b := make([]byte, size); size > 0; {
		n, err := syscall.Read(disk, b[:size])
		if err != nil || n <= 0 {
			t.Fatal(n, err)
		}
		size -= n
	}
}

// What is in a pipe is in pages: it takes more when one is read.
const (
	pipeSize = 1 << 16
	page     = 4096
)

// The disk hangs below the log. Whoever waited for it once does not wait again.
func TestHungLogIsWaitedForOnce(t *testing.T) {
	s, task, _ := hungLogs(t)
	say(t, task, "a", pipeSize)
	begun := time.Now()
	s.drain()
	first := time.Since(begun)
	say(t, task, "b", page)
	begun = time.Now()
	if s.drain(); time.Since(begun) > first/2 {
		t.Errorf("it is waited for %s again, after %s", time.Since(begun), first)
	}
}

// What was written after a wait that was given up is waited for like any other output: the end of the earlier wait is not
// that of the later one.
func TestOutputAfterAHungLogIsWrittenBeforeTheEnd(t *testing.T) {
	s, task, disk := hungLogs(t)
	say(t, task, "a", page)
	s.drain()
	read(t, disk, page)
	fds := [1]pollFD{{s.logs.doing(), pollIn, 0}}
	if poll(fds[:], 30_000); fds[0].revents == 0 {
		t.Fatal("the first one has no end")
	}
	say(t, task, "b", page)
	read := make(chan struct{})
	time.AfterFunc(200*time.Millisecond, func() {
		close(read)
		var b [page]byte
		_, _ = syscall.Read(disk, b[:])
	})
	s.drain()
	select {
	case <-read:
	default:
		t.Error("it is not waited for")
	}
}
