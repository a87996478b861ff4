package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// recordAgainMS is how long to wait before a record that failed is tried again.
const recordAgainMS = 1000

// record keeps the exit for agents to come and tells those that are here. Where it cannot be kept this process stays for
// them instead, until it can, or until an agent has removed the traces of the task: an exit that nobody knows is a task
// that is run again.
func (s *supervisor) record(exit []byte) {
	for kept := s.keep(exit); !kept && !forgotten(); kept = s.keep(exit) {
		s.tell(exit)
		fds := [1]pollFD{{int32(s.listen), pollIn, 0}}
		if poll(fds[:], recordAgainMS); fds[0].revents != 0 {
			s.accept()
		}
	}
	_ = syscall.Unlink(s.spec.State + ".sock")
	s.tell(exit)
}

func (s *supervisor) tell(exit []byte) {
	for i := range s.agents {
		send(s.agents[i].fd, frame.KindExited, exit)
	}
}

// keep puts the exit into the file of the lock, which has room for it on a full disk as well, and gives it its name.
func (s *supervisor) keep(exit []byte) bool {
	n, err := syscall.Pwrite(lockFD, exit, 0)
	if err != nil || n != len(exit) || syscall.Ftruncate(lockFD, int64(n)) != nil {
		return false
	}
	return syscall.Rename(s.spec.State+".lock", s.spec.State+".exit") == nil
}

// forgotten reports whether an agent has removed the file of the lock.
func forgotten() bool {
	var st syscall.Stat_t
	return syscall.Fstat(lockFD, &st) == nil && st.Nlink == 0
}
