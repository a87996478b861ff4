package supervise

import (
	"errors"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// abandonWait is how long a start that is abandoned is waited for; what hangs in the kernel is waited for in the background.
const abandonWait = 2 * time.Second

// Hang is the error of a start that was abandoned and that the kernel has not ended: a volume of the task does not respond.
// Nothing is begun any more when it does.
type Hang struct {
	// Left are the processes that hang.
	Left []Remain
	// Gone is closed when they have ended and their files are removed.
	Gone <-chan struct{}
	// Err is why the start was abandoned.
	Err error
}

// Error explains why the start was abandoned.
func (h *Hang) Error() string { return h.Err.Error() }

// Unwrap is that reason.
func (h *Hang) Unwrap() error { return h.Err }

// abandon ends a start, with all that the task has begun: the supervising process begins nothing more while it is stopped,
// and what it has begun stays below it.
func (p *Process) abandon(cause error) error {
	id := p.Ident()
	if !errors.As(cause, new(refused)) {
		_ = p.child.Signal(syscall.SIGSTOP)
		p.killBelow()
	}
	below := statAll(descendants(id.PID))
	_ = p.child.Kill()
	releaseLease(process{pid: id.PID, ticks: id.Ticks}, below)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = p.child.Wait()
		for _, b := range below {
			awaitEnd(b)
		}
		if !errors.As(cause, new(refused)) {
			endLeftovers(id)
		}
		_ = Remove(id.State)
	}()
	select {
	case <-gone:
		return cause
	case <-time.After(abandonWait):
		left := []int{id.PID}
		for _, b := range below {
			left = append(left, b.pid)
		}
		return &Hang{Left: lives(left), Gone: gone, Err: cause}
	}
}

// killBelow kills all that the supervising process, which is stopped, has below it.
func (p *Process) killBelow() {
	for range orphanRounds {
		p.Force()
		if len(lives(descendants(p.Ident().PID))) == 0 {
			return
		}
		time.Sleep(orphanPause)
	}
}

func lives(pids []int) (out []Remain) {
	for _, pid := range pids {
		if r, ok := remain(pid); ok {
			out = append(out, r)
		}
	}
	return out
}

func statAll(pids []int) (out []process) {
	for _, pid := range pids {
		if p, ok := stat(pid); ok {
			out = append(out, p)
		}
	}
	return out
}

// awaitEnd waits for the end of a process that was killed.
func awaitEnd(p process) {
	for {
		if now, ok := startTicks(p.pid); !ok || now != p.ticks || len(lives([]int{p.pid})) == 0 {
			return
		}
		time.Sleep(awaitPause)
	}
}

const awaitPause = 50 * time.Millisecond

// Starting lists a supervising process that starts its task, whether it responds or not, and what is below it.
func Starting(pid int) []Remain { return lives(append([]int{pid}, descendants(pid)...)) }

// lockFD is the descriptor by which a supervising process holds its lock.
const lockFD = 4

// Holder finds the supervising process at a state path by its lock, also one that hangs or is stopped. The result
// contains neither the task nor its main process.
func Holder(state string) (Ident, bool) {
	var lock unix.Stat_t
	if unix.Stat(state+".lock", &lock) != nil || !locked(state) {
		return Ident{}, false
	}
	found := map[int]process{}
	for _, p := range processes() {
		var st unix.Stat_t
		if isSupervising(p.pid) && unix.Stat("/proc/"+strconv.Itoa(p.pid)+"/fd/"+strconv.Itoa(lockFD), &st) == nil && st.Dev == lock.Dev && st.Ino == lock.Ino {
			found[p.pid] = p
		}
	}
	for pid, p := range found {
		if _, below := found[p.parent]; !below { // what it forks has the lock until it runs another program
			return Ident{State: state, Boot: bootID(), PID: pid, Ticks: p.ticks, Mark: markAt(state)}, true
		}
	}
	return Ident{}, false
}
