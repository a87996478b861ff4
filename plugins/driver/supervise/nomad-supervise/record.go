package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

func (s *supervisor) tell() {
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
