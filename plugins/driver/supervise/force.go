package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
)

// send sends a signal to one process if it is still the one that started at ticks.
func send(pid int, ticks uint64, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if now, ok := startTicks(pid); !ok || now != ticks {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// Force kills the task's processes without asking the supervising process: those of its cgroup, its main process with
// its session, and all descendants.
func (p *Process) Force() {
	id := p.Ident()
	killCgroup(id.Cgroup)
	for _, dir := range id.Scopes {
		killScope(dir)
	}
	_ = send(id.TaskPID, id.TaskTicks, syscall.SIGKILL)
	killSession(id)
	if u, ok := p.Usage(); ok && alive(id.PID, id.Ticks) {
		for _, pid := range u.PIDs {
			if !isHelper(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// GiveUp kills the supervising process, and treats it as ended when the kernel does not end it. It is for a process that
// does not report how its task ended.
func (p *Process) GiveUp() {
	id := p.Ident()
	starting := statAll(descendants(id.PID))
	_ = send(id.PID, id.Ticks, syscall.SIGKILL)
	if id.TaskPID == 0 {
		releaseLease(process{pid: id.PID, ticks: id.Ticks}, starting)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.givenUp = true; p.conn != nil {
		_ = p.conn.SetDeadline(time.Unix(1, 0))
	}
}

// Stopped reports whether the supervising process is stopped, or traced: it will not do anything by itself.
func (p *Process) Stopped() bool {
	s, ok := stat(p.Ident().PID)
	return ok && s.ticks == p.Ident().Ticks && (s.state == 'T' || s.state == 't')
}

// Answers reports whether the supervising process has answered.
func (p *Process) Answers() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn != nil
}

// killCgroup kills all processes of a cgroup, and where the kernel has no cgroup.kill freezes it meanwhile.
func killCgroup(dir string) {
	if dir == "" || os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) == nil {
		return
	}
	_ = os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("1"), 0)
	defer func() { _ = os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("0"), 0) }()
	raw, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for _, f := range strings.Fields(string(raw)) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// killScope kills the processes of a cgroup of version 1, but for helpers: they stay in that when they are moved out of
// the one of version 2.
func killScope(dir string) {
	pids, _ := cgroups.GetAllPids(dir)
	for _, pid := range pids {
		if pid > 1 && !isHelper(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
