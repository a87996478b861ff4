package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/isolate"
)

const agentFD, lockFD = 3, 4

type supervisor struct {
	spec   frame.Spec
	agents [4]agent // the connection of the agent that started the task comes first
	listen int
	state  *state

	logs   *logs // nil when no process keeps the output
	cgroup *cgroup
	// kills counts the processes of the task's cgroups that the kernel had ended for want of memory when it started.
	kills  string
	reaper *reaper

	pid       int
	pidfd     int
	startedAt int64
	lease     lease
	// killed is set when an agent has ordered the kill of the task.
	killed bool
	// ending is set when the main process has ended: no more commands are run inside the task.
	ending bool
	// childless is set when no process below this one is left.
	childless bool
	// helpers is set when only processes that serve mounts outlive the task, gone when no process of it is left.
	helpers, gone bool
	// exit is the report of the end; nil while the main process runs.
	exit      []byte
	recording recording
}

func main() {
	if path := joined(); path != "" {
		joinNetwork(path)
	}
	if isIdle() {
		idle()
	}
	if isCommand() {
		runCommand()
	}
	if isolate.Asked() {
		isolate.Run()
	}
	syscall.CloseOnExec(agentFD)
	syscall.CloseOnExec(lockFD)
	s := &supervisor{listen: -1, pidfd: -1, agents: [4]agent{{fd: agentFD}, {fd: -1}, {fd: -1}, {fd: -1}}}
	if !readSpec(agentFD, &s.spec) {
		syscall.Exit(frame.ExitUnasked)
	}
	if len(s.spec.Mounts) > 0 || s.spec.Lease > 0 || s.spec.Isolation.On || s.spec.Network != "" || s.spec.Hostname != "" {
		runtime.LockOSThread() // a namespace is one of a thread; the lock costs another thread, so others do without
	}
	if f := s.start(); f != nil {
		s.cgroup.remove()
		removeScopes(&s.spec)
		s.lease.drop()
		s.hide()
		send(agentFD, frame.KindFailed, f.Encode())
		syscall.Exit(1)
	}
	if s.logs != nil {
		go s.logs.run()
	}
	s.introduce(agentFD)
	s.lease.look()
	s.serve()
	s.finish()
	s.keepLease()
	syscall.Exit(0)
}

func readSpec(fd int, spec *frame.Spec) bool {
	var head [frame.HeaderSize]byte
	if !readFull(fd, head[:]) {
		return false
	}
	kind, n, err := frame.Header(head[:])
	if err != nil || kind != frame.KindSpec {
		return false
	}
	body := make([]byte, n)
	return readFull(fd, body) && spec.Decode(body) == nil
}

// readFull waits without telling the runtime: nothing else is to run yet, and so this stays the main thread.
func readFull(fd int, b []byte) bool {
	for len(b) > 0 {
		n, _, err := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if err == syscall.EINTR {
			continue
		}
		if err != 0 || n == 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

// send never waits: an agent that does not read has the socket and the exit file to come back to.
func send(fd int, kind frame.Kind, body []byte) {
	if fd >= 0 {
		_, _ = syscall.SendmsgN(fd, frame.Wrap(kind, body), nil, nil, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
	}
}

// finish runs after the main process ended: ends the rest of the tree, keeps the last output, and the volumes within
// their lease.
func (s *supervisor) finish() {
	s.ending = true
	finishedAt := now()
	s.endTree()
	s.lease.leave()
	status := s.reaper.status
	if s.leaseOver() {
		s.lease.ended = s.lease.ended || status != 0
		s.lease.close(s.gone)
	}
	s.drain()
	x := frame.Exited{Code: int64(status.ExitStatus()), FinishedAt: finishedAt, LeaseEnded: s.lease.ended, Keeps: s.lease.kept()}
	if status.Signaled() {
		x.Signal = int64(status.Signal())
		x.Code = 128 + x.Signal
	}
	// A shell passes on that its child was killed.
	x.OOM = x.Code == 128+int64(syscall.SIGKILL) && !s.killed && s.oomKilled()
	s.cgroup.remove()
	removeScopes(&s.spec)
	s.exit, s.pid = x.Encode(), 0
}

func now() int64 {
	var t syscall.Timeval
	_ = syscall.Gettimeofday(&t)
	return t.Nano()
}

func bootTime() int64 {
	var t syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}
