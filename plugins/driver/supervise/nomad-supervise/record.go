package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

func (s *supervisor) reportExit() {
	for i := range s.agents {
		send(s.agents[i].fd, frame.KindExited, s.exit)
	}
}

// keep puts the exit into the file of the lock, which has room for it on a full disk as well, and gives it its name.
func (s *supervisor) keep(exit []byte) bool {
	n, err := syscall.Pwrite(lockFD, exit, 0)
	if err != nil || n != len(exit) || syscall.Ftruncate(lockFD, int64(n)) != nil {
		return false
	}
	return s.state.rename(lockEnding, exitEnding)
}

// recordHastyMS is how long the record of the exit is waited for before the exit is reported without it.
const recordHastyMS = 1000

// recording is a try to keep the exit, in a goroutine of its own: the disk may hang.
type recording struct {
	note, send int // a pipe; the outcome comes through it
	made, busy bool
}

// record keeps the exit. It reports false while that has not come to an end, too.
func (s *supervisor) record() bool {
	r := &s.recording
	if !r.made {
		var p [2]int
		if syscall.Pipe2(p[:], syscall.O_CLOEXEC) != nil {
			return s.keep(s.exit)
		}
		r.note, r.send, r.made = p[0], p[1], true
	}
	wait := int64(0)
	if !r.busy {
		r.busy = true
		if wait = recordHastyMS; s.lease.stop > 0 {
			wait = min(wait, s.lease.wait())
		}
		go func() {
			var b [1]byte
			if s.keep(s.exit) {
				b[0] = 1
			}
			_, _ = syscall.Write(r.send, b[:])
		}()
	}
	fds := [1]pollFD{{int32(r.note), pollIn, 0}}
	if poll(fds[:], wait); fds[0].revents == 0 {
		return false
	}
	var b [1]byte
	_, _ = syscall.Read(r.note, b[:])
	r.busy = false
	return b[0] == 1
}
