package main

import "syscall"

// recordAgainMS is how long to wait before a record that failed is tried again.
const recordAgainMS = 1000

// keepLease reports the exit and returns when it is on record, the lease has ended or was released, and no process of the task is left.
//
// Where the exit cannot be kept for agents to come this process stays for them instead, until it can, or until an agent
// has removed the traces of the task: a task whose exit is unknown is run again. While there is a lease no process
// else may be there who takes the volumes away in time. Helpers are children of this process, and may write to its pipes.
// What the kernel does not end is known, to every agent that comes, by being below this process.
func (s *supervisor) keepLease() {
	closed := s.gone
	if closed {
		s.logs.ask(orderClose)
	}
	for recorded, told := false, false; ; {
		s.leaseOver()
		s.lease.finish(s.gone)
		recorded = recorded || s.record() || s.isForgotten() || s.abandoned()
		asked := !recorded || s.lease.stop > 0
		if !asked {
			s.hide()
		}
		if !recorded || !told {
			s.reportExit()
			told = recorded
		}
		if !asked && s.gone {
			s.cgroup.remove() // which is not possible before all have ended
			removeScopes(&s.spec)
			if !closed {
				s.drain()
			}
			return
		}
		wait := s.lease.wait()
		if (!recorded || !s.gone && !s.helpers) && (wait < 0 || wait > recordAgainMS) {
			wait = recordAgainMS
		}
		if s.turn(wait) {
			s.helpers, s.childless = false, true
		}
		s.gone = s.gone || s.childless && !s.contained()
		if !s.gone && !s.helpers {
			s.killTree(true)
			s.helpers = s.onlyHelpers()
		}
	}
}

// hide lets no more agents come.
func (s *supervisor) hide() {
	if s.listen < 0 {
		return
	}
	s.state.remove(socketEnding)
	_ = syscall.Close(s.listen)
	s.listen = -1
}
