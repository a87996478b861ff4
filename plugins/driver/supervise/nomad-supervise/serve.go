package main

import (
	"syscall"
	"unsafe"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

const pollIn = 1

type pollFD struct {
	fd      int32
	events  int16
	revents int16
}

// poll waits for one of the descriptors; a negative timeout waits indefinitely, negative descriptors are skipped.
func poll(fds []pollFD, timeoutMS int64) {
	var limit *syscall.Timespec
	if timeoutMS >= 0 {
		t := syscall.NsecToTimespec(timeoutMS * 1e6)
		limit = &t
	}
	for i := range fds {
		fds[i].revents = 0
	}
	_, _, _ = syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)),
		uintptr(unsafe.Pointer(limit)), 0, 0, 0)
}

// agent is a connection that commands come over; fd is -1 when the place is free.
type agent struct {
	fd     int
	inbox  [16]byte // the beginning of an order
	unread int
	files  []int // descriptors that came with it
}

// serve obeys commands until the main process has ended.
func (s *supervisor) serve() {
	for !s.turn(s.patience(s.lease.wait())) {
		if s.abandoned() {
			s.killTree(true)
		}
		if s.leaseOver() {
			s.killTree(s.lease.ended)
			s.lease.ended = true
			s.lease.sever()
		}
	}
}

// turn waits until something happens, and does what it asks for. It reports whether the reaper has a note.
func (s *supervisor) turn(timeoutMS int64) bool {
	fds := [8]pollFD{
		{int32(s.reaper.note), pollIn, 0},
		{int32(s.listen), pollIn, 0},
		{s.logs.doing(), pollIn, 0},
		7: {s.lease.alarm(), pollIn, 0},
	}
	for i := range s.agents {
		fds[3+i] = pollFD{int32(s.agents[i].fd), pollIn, 0}
	}
	poll(fds[:], timeoutMS)
	if fds[2].revents != 0 {
		s.logs.done()
	}
	for i := range s.agents {
		if fds[3+i].revents != 0 {
			s.hear(&s.agents[i])
		}
	}
	if fds[1].revents != 0 {
		s.accept()
	}
	if fds[0].revents != 0 {
		s.reaper.read()
		return true
	}
	return false
}

// accept takes a new connection; when all places are taken the last one gives way.
func (s *supervisor) accept() {
	fd, _, err := syscall.Accept4(s.listen, syscall.SOCK_CLOEXEC)
	if err != nil {
		return
	}
	place := &s.agents[len(s.agents)-1]
	for i := range s.agents {
		if s.agents[i].fd < 0 {
			place = &s.agents[i]
			break
		}
	}
	place.hangUp()
	place.fd = fd
	s.introduce(fd)
	if s.exit != nil {
		send(fd, frame.KindExited, s.exit)
	}
}

func (s *supervisor) introduce(fd int) {
	r := frame.Running{TaskID: s.spec.TaskID, PID: int64(s.pid), StartedAt: s.startedAt, LeaseOf: s.spec.LeaseOf}
	send(fd, frame.KindRunning, r.Encode())
}

func (a *agent) hangUp() {
	if a.fd >= 0 {
		_ = syscall.Close(a.fd)
	}
	closeAll(a.files)
	a.fd, a.unread, a.files = -1, 0, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
}

// rights has room for the descriptors of a command.
var rights [cmsgHeader + 4*frame.CommandFiles]byte

const cmsgHeader = 16 // of 64-bit systems

// take keeps the descriptors that came with a frame.
func (a *agent) take(control []byte) {
	closeAll(a.files)
	a.files = nil
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil || len(messages) != 1 {
		return
	}
	a.files, _ = syscall.ParseUnixRights(&messages[0])
}

// leaseOver reports whether the task must end. This process may have been stopped while the lease was renewed:
// renewals that arrived meanwhile count, and others may use the volumes.
func (s *supervisor) leaseOver() bool {
	if s.lease.over() && !s.lease.ended {
		for i := range s.agents {
			for told := 0; told < renewalsMax && s.hear(&s.agents[i]); {
				told++
			}
		}
	}
	return s.lease.over()
}

// renewalsMax is more than the renewals that a socket holds, see roomMax of package supervise.
const renewalsMax = 1 << 15

// hear reads a frame of an agent, and reports whether there may be more.
func (s *supervisor) hear(a *agent) bool {
	if a.fd < 0 {
		return false
	}
	n, control, _, _, err := syscall.Recvmsg(a.fd, a.inbox[a.unread:], rights[:], syscall.MSG_DONTWAIT|syscall.MSG_CMSG_CLOEXEC)
	if err == syscall.EAGAIN || err == syscall.EINTR {
		return false
	}
	if err != nil || n <= 0 {
		a.hangUp()
		return false
	}
	if control > 0 {
		a.take(rights[:control])
	}
	a.unread += n
	for {
		used := s.obey(a, a.inbox[:a.unread])
		if used < 0 {
			a.hangUp()
			return false
		}
		if used == 0 {
			return true
		}
		copy(a.inbox[:], a.inbox[used:a.unread])
		a.unread -= used
	}
}

// obey carries out the first order and returns its length: 0 when it is not whole, -1 when the connection ends with it.
func (s *supervisor) obey(a *agent, b []byte) int {
	if len(b) < frame.HeaderSize {
		return 0
	}
	kind, n, err := frame.Header(b)
	if err != nil || n > 8 {
		return -1
	}
	if len(b) < frame.HeaderSize+n {
		return 0
	}
	switch {
	case kind == frame.KindSignal && n == 1:
		pidfdSignal(s.pidfd, syscall.Signal(b[frame.HeaderSize]))
	case kind == frame.KindKill && n == 0:
		s.killed = true
		s.killTree(false)
	case kind == frame.KindCommand && n == 0:
		s.command(a)
		return -1 // the connection is that of the command now
	case kind == frame.KindRelease && n == 0:
		s.lease.released = true
	case kind == frame.KindLease && n == 8:
		from, _ := frame.TimeOf(b[frame.HeaderSize : frame.HeaderSize+n])
		s.lease.renew(from)
	default:
		return -1
	}
	return frame.HeaderSize + n
}
