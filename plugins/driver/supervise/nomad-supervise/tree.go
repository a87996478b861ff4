package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

const sysPidfdSendSignal = 424 // the same on every architecture

func pidfdSignal(pidfd int, sig syscall.Signal) {
	_, _, _ = syscall.Syscall6(sysPidfdSendSignal, uintptr(pidfd), uintptr(sig), 0, 0, 0, 0)
}

// reaper collects every child: the main process and, because of the subreaper flag, all orphans of its tree.
type reaper struct {
	main   int
	status syscall.WaitStatus // valid after the first note
	note   int                // readable once per note: main ended, then no child left
	send   int
}

func newReaper(main int) *reaper {
	var p [2]int
	_ = syscall.Pipe2(p[:], syscall.O_CLOEXEC)
	return &reaper{main: main, note: p[0], send: p[1]}
}

// run ends when no child is left, which can only be after the main process ended.
func (r *reaper) run() {
	var ws syscall.WaitStatus
	for {
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			r.reportExit()
			return
		case pid == r.main:
			r.status = ws
			r.reportExit()
		}
	}
}

func (r *reaper) reportExit() {
	b := [1]byte{1}
	_, _ = syscall.Write(r.send, b[:])
}

func (r *reaper) read() {
	var b [1]byte
	_, _ = syscall.Read(r.note, b[:])
}

// stuckRounds are the rounds of endTree, two seconds, after which what waits in the kernel is not waited for.
const stuckRounds = 200

// endTree kills what the main process left behind until no child is left, for at most ten seconds, two for what waits
// in the kernel, or as long as the lease allows.
func (s *supervisor) endTree() {
	for round := range 1000 {
		fds := [1]pollFD{{int32(s.reaper.note), pollIn, 0}}
		poll(fds[:], min(int64(round)+1, 10))
		if fds[0].revents != 0 {
			s.reaper.read()
			s.childless = true
		}
		if s.gone = s.childless && !s.contained(); s.gone {
			return
		}
		s.killTree(round > 3)
		if s.lease.overdue() {
			return
		}
		if round%8 == 7 && s.onlyHelpers() {
			s.helpers = true
			return
		}
		if round > stuckRounds && round%8 == 7 && s.onlyStuck() {
			return
		}
	}
}

// killTree kills all descendants: at once by the cgroup when the task has its own, otherwise, or when asked
// to be thorough because one may have left the cgroup, by the process table.
func (s *supervisor) killTree(thorough bool) {
	s.eachContained(func(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) })
	if s.cgroup.kill() && !thorough {
		return
	}
	killDescendants()
}

// killDescendants kills by the process table what descends from this process.
func killDescendants() {
	self := syscall.Getpid()
	parents := processTable()
	for pid := range parents {
		if descends(parents, pid, self) && !isHelper(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// onlyHelpers reports whether all descendants that are left are helpers, and there are some.
func (s *supervisor) onlyHelpers() bool {
	self, any := syscall.Getpid(), false
	parents := processTable()
	for pid := range parents {
		if descends(parents, pid, self) {
			if any = isHelper(pid); !any {
				return false
			}
		}
	}
	return any
}

// onlyStuck reports whether all processes of the task that are left wait in the kernel, or have threads that do.
func (s *supervisor) onlyStuck() bool {
	self, stuck := syscall.Getpid(), true
	s.eachContained(func(pid int) { stuck = stuck && waitsInKernel(readFile("/proc/"+itoa(int64(pid))+"/stat")) })
	parents := processTable()
	for pid := range parents {
		if descends(parents, pid, self) && !isHelper(pid) && !waitsInKernel(readFile("/proc/"+itoa(int64(pid))+"/stat")) {
			return false
		}
	}
	return stuck
}

// waitsInKernel reads a stat line; a killed process whose first thread has ended is a zombie before
// its last one has.
func waitsInKernel(stat string) bool { return stateOf(stat) == 'D' || stateOf(stat) == 'Z' }

// stateOf is the third field of a stat line; 0 when there is none.
func stateOf(stat string) byte {
	i := len(stat) - 1
	for i >= 0 && stat[i] != ')' {
		i--
	}
	if i < 0 || i+2 >= len(stat) {
		return 0
	}
	return stat[i+2]
}

// isHelper reports whether a process serves a mount and was taken out of the life of its task by the agent.
func isHelper(pid int) bool {
	return frame.InHelperScope(readFile("/proc/"+itoa(int64(pid))+"/cgroup"), func(dir string) bool {
		var st syscall.Stat_t
		return syscall.Lstat(dir, &st) == nil && int(st.Uid) == syscall.Geteuid()
	})
}

func descends(parents map[int]int, pid, ancestor int) bool {
	for range 4096 {
		parent, known := parents[pid]
		if !known || parent <= 1 {
			return parent == ancestor && known
		}
		if parent == ancestor {
			return true
		}
		pid = parent
	}
	return false
}

// processTable maps each process to its parent.
func processTable() map[int]int {
	out := map[int]int{}
	var b [512]byte
	for _, name := range listDir("/proc") {
		pid := atoi(name)
		if pid <= 0 {
			continue
		}
		fd, err := syscall.Open("/proc/"+name+"/stat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		n, _ := syscall.Read(fd, b[:])
		_ = syscall.Close(fd)
		if n > 0 {
			out[pid] = parentOf(b[:n])
		}
	}
	return out
}

// parentOf reads the fourth field of a stat line: "pid (name) state ppid"; the name may hold anything.
func parentOf(stat []byte) int {
	i := len(stat) - 1
	for i >= 0 && stat[i] != ')' {
		i--
	}
	if i < 0 || i+4 >= len(stat) {
		return 0
	}
	rest, end := stat[i+4:], 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	return atoi(string(rest[:end]))
}
