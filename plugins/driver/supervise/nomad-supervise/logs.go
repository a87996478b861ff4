package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// logs moves the output of the task to its files, in a goroutine of its own: a disk that hangs below them holds up that
// one only. The end of a lease, and what an agent asks for, do not wait for it.
type logs struct {
	stdout, stderr *stream
	dir            int // of the files of both
	orders, order  int // what to do comes through a pipe
	notes, note    int // and through another one, that it is done
	// behind is set until what was asked for is done.
	behind bool
}

// Orders to logs.
const (
	orderDrain = iota
	orderClose
)

func newLogs(stdout, stderr *stream, dir int) (*logs, *frame.Failed) {
	var orders, notes [2]int
	err := syscall.Pipe2(orders[:], syscall.O_CLOEXEC)
	if err == nil {
		err = syscall.Pipe2(notes[:], syscall.O_CLOEXEC)
	}
	if err != nil {
		return nil, failed(true, "make a pipe: "+err.Error())
	}
	return &logs{stdout: stdout, stderr: stderr, dir: dir, orders: orders[0], order: orders[1], notes: notes[0], note: notes[1]}, nil
}

// run moves output until it is ordered to close the files.
func (l *logs) run() {
	for {
		fds := [3]pollFD{{int32(l.orders), pollIn, 0}, {int32(l.stdout.pipe), pollIn, 0}, {int32(l.stderr.pipe), pollIn, 0}}
		poll(fds[:], -1)
		if fds[1].revents != 0 {
			l.stdout.pump()
		}
		if fds[2].revents != 0 {
			l.stderr.pump()
		}
		if fds[0].revents == 0 {
			continue
		}
		var b [1]byte
		_, _ = syscall.Read(l.orders, b[:])
		if b[0] == orderClose {
			l.close()
			return
		}
		l.stdout.drain()
		l.stderr.drain()
		_, _ = syscall.Write(l.note, b[:])
	}
}

// close closes every descriptor once: another thread may get its number at once.
func (l *logs) close() {
	l.stdout.close()
	l.stderr.close()
	_ = syscall.Close(l.dir)
}

// ask gives an order, which is not waited for.
func (l *logs) ask(order byte) {
	if l == nil {
		return
	}
	b := [1]byte{order}
	_, _ = syscall.Write(l.order, b[:])
	l.behind = order == orderDrain
}

// doing is readable when what was asked for is done.
func (l *logs) doing() int32 {
	if l == nil || !l.behind {
		return -1
	}
	return int32(l.notes)
}

// idle reports whether nothing is under way of what was asked for.
func (l *logs) idle() bool {
	if fds := [1]pollFD{{l.doing(), pollIn, 0}}; fds[0].fd >= 0 {
		if poll(fds[:], 0); fds[0].revents != 0 {
			l.done()
		}
	}
	return l == nil || !l.behind
}

func (l *logs) done() {
	var b [1]byte
	_, _ = syscall.Read(l.notes, b[:])
	l.behind = false
}

const (
	// drainNS is how long the last output may take to be written, drainHastyNS when the task was killed: the agent gives the
	// supervising process two seconds to obey.
	drainNS      = 10e9
	drainHastyNS = 1e9
)

// drain waits until the output so far is written, or for no longer than that may take. What has not come to an end since an
// earlier wait is not waited for again.
func (s *supervisor) drain() {
	if !s.logs.idle() {
		return
	}
	s.logs.ask(orderDrain)
	for began := bootTime(); s.logs.doing() >= 0; {
		limit := int64(drainNS)
		if s.killed || s.lease.over() {
			limit = drainHastyNS
		}
		left := (began + limit - bootTime()) / 1e6
		switch {
		case left <= 0:
			return
		case s.lease.over(): // its alarm does not end
			fds := [1]pollFD{{s.logs.doing(), pollIn, 0}}
			if poll(fds[:], left); fds[0].revents != 0 {
				s.logs.done()
			}
		case s.turn(left):
			s.helpers, s.childless = false, true
			s.gone = !s.contained()
		}
	}
}
