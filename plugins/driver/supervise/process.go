package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// Ident is what must be stored to find a supervising process again.
type Ident struct {
	// State is the path of its files without their endings.
	State  string
	TaskID string
	// Boot is the kernel's id of the boot that the process ids below are of.
	Boot string `json:",omitempty"`
	// PID and Ticks name the supervising process: its pid and start time.
	PID   int
	Ticks uint64
	// TaskPID and TaskTicks name the task's main process.
	TaskPID   int
	TaskTicks uint64
	StartedAt time.Time
	// LeaseOf is who has the lease that the process keeps; empty without a lease.
	LeaseOf string `json:",omitempty"`
	// Cgroup is the task's own cgroup directory, when it has one.
	Cgroup string `json:",omitempty"`
	// Scopes are the task's own cgroup v1 directories.
	Scopes []string `json:",omitempty"`
	// Memory is the task's limit of memory in bytes; 0 is none.
	Memory int64 `json:",omitempty"`
	// Mark is the variable in the environment of the task's processes by which they are known.
	Mark string `json:",omitempty"`
}

// Exit is how a task ended. Lost means that the supervising process vanished without a record.
type Exit struct {
	Code      int
	Signal    int
	OOMKilled bool
	Lost      bool
	// LeaseEnded means that the supervising process ended the task because its lease had ended.
	LeaseEnded bool
	// keeps means that the supervising process stays, to keep the lease.
	keeps      bool
	FinishedAt time.Time
}

// Process is a supervising process and its task.
type Process struct {
	ident Ident
	child *os.Process // nil when an earlier agent started it
	done  chan struct{}
	exit  Exit // valid after done is closed
	// starting is held while a command is started in the task.
	starting sync.Mutex

	mu sync.Mutex
	// conn is nil while the supervising process has not answered.
	conn *net.UnixConn
	// room is what the connection was made to hold; 0 is what the kernel gives.
	room     int
	detached bool
	// givenUp is set when the supervising process is treated as ended whatever the kernel reports.
	givenUp bool
	// keeping is set while the supervising process keeps the lease after the exit, released when it was ordered to release the lease.
	keeping, released bool
}

func readFrame(r io.Reader) (frame.Kind, []byte, error) {
	var head [frame.HeaderSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	kind, n, err := frame.Header(head[:])
	if err != nil {
		return 0, nil, err
	}
	body := make([]byte, min(n, 1<<16))
	if n > len(body) {
		return 0, nil, frame.ErrMalformed
	}
	_, err = io.ReadFull(r, body)
	return kind, body, err
}

// Ident is what to store.
func (p *Process) Ident() Ident {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ident
}

// note takes down which process is the task's main one.
func (p *Process) note(r *frame.Running) {
	ticks, _ := startTicks(int(r.PID))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ident.TaskPID, p.ident.TaskTicks, p.ident.StartedAt = int(r.PID), ticks, time.Unix(0, r.StartedAt)
}

// learn takes down the main process of a task that was taken up while its start hung.
func (p *Process) learn(r *frame.Running) {
	if id := p.Ident(); id.TaskPID == 0 && r.PID != 0 {
		p.note(r)
	}
}

// Done is closed when the task has exited and its tree has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit is how the task ended; call it after Done is closed.
func (p *Process) Exit() Exit { return p.exit }

// Signal sends a signal to the task's main process, whatever the supervising process does. It succeeds when the task
// has exited.
func (p *Process) Signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	return send(p.ident.TaskPID, p.ident.TaskTicks, sig)
}

// Kill kills everything that the task started.
func (p *Process) Kill() error { return p.command(frame.Wrap(frame.KindKill, nil)) }

const (
	// commandWait bounds handing over an order: one who reads nothing has room for many.
	commandWait = 100 * time.Millisecond
	// roomFirst and roomMax are how much a connection holds, in bytes that the kernel doubles, when the process has not
	// read anything for long: it may be stopped, and all renewals of its lease count when it continues. At 1.5 KiB for
	// two of them that is enough for 20,000.
	roomFirst, roomMax = 1 << 19, 1 << 23
)

// command hands over an order; one that fails because the process just ended is carried out.
func (p *Process) command(b []byte) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	return p.order(b)
}

func (p *Process) order(b []byte) error {
	err := p.hand(b)
	if err == nil {
		return nil
	}
	if !alive(p.Ident().PID, p.Ident().Ticks) {
		return nil
	}
	return fault.New(fault.Unavailable, "talk to the supervising process of task %s: %w", p.Ident().TaskID, err)
}

func (p *Process) hand(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		return errGone
	}
	for {
		_ = p.conn.SetWriteDeadline(time.Now().Add(commandWait))
		n, err := p.conn.Write(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || p.room == roomMax {
			return err
		}
		p.room = min(max(2*p.room, roomFirst), roomMax)
		if err := widen(p.conn, p.room); err != nil {
			return fmt.Errorf("make room for what it has not read: %w", err)
		}
	}
}

// widen lets a connection hold more, as far as this process may do that.
func widen(conn *net.UnixConn, size int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Control(func(fd uintptr) {
		failure = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, size)
		if failure != nil {
			failure = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, size)
		}
	})
	return errors.Join(err, failure)
}

// Detach releases a task that runs on: nothing more is learnt about it and Done is never closed.
func (p *Process) Detach() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.detached = true; p.conn != nil {
		p.conn.Close()
	}
}

func (p *Process) isDetached() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.detached
}

func (p *Process) isGivenUp() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.givenUp
}

// follow reads reports until the task has exited; it is the only writer of exit.
func (p *Process) follow() {
	for {
		if x, ok := p.exited(); ok {
			p.exit = x
			break
		}
		if p.isDetached() {
			return
		}
		if x, ok := readExit(p.Ident().State); ok {
			p.exit = x
			break
		}
		if !p.reconnect() {
			if p.isDetached() {
				return
			}
			x, ok := readExit(p.Ident().State)
			if !ok {
				x = Exit{Lost: true, FinishedAt: time.Now()}
			}
			p.exit = x
			break
		}
	}
	if p.exit.keeps {
		p.setKeeping(true)
		close(p.done)
		p.followLease()
		return
	}
	if p.conn != nil {
		p.conn.Close()
	}
	p.collect()
	if p.exit.Lost {
		endLeftovers(p.Ident())
	}
	close(p.done)
}

// reapWait bounds the wait for the end of a supervising process that has reported the exit: it stays while helpers
// of the task outlive it.
const reapWait = time.Second

// collect reaps the supervising process, in the background when that takes longer than reapWait.
func (p *Process) collect() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.reap()
	}()
	select {
	case <-done:
	case <-time.After(reapWait):
	}
}

// reap collects the supervising process when it is a child of ours, also of an instance before this one.
func (p *Process) reap() {
	if p.child != nil {
		_, _ = p.child.Wait()
		return
	}
	if s, ok := stat(p.Ident().PID); ok && s.ticks == p.Ident().Ticks && s.parent == os.Getpid() {
		_, _ = syscall.Wait4(p.Ident().PID, nil, 0, nil)
	}
}

// exited reads the connection to its end or to the exit report.
func (p *Process) exited() (Exit, bool) {
	if p.conn == nil {
		return Exit{}, false
	}
	for {
		kind, body, err := readFrame(p.conn)
		if err != nil {
			return Exit{}, false
		}
		if kind != frame.KindExited {
			continue
		}
		var x frame.Exited
		if x.Decode(body) == nil {
			return exitOf(&x), true
		}
	}
}

// reconnect comes back after a broken connection; false means that the supervising process has ended.
func (p *Process) reconnect() bool {
	for p.alive() && !p.isGivenUp() && !p.isDetached() {
		ctx, cancel := context.WithTimeout(context.Background(), attachTimeout)
		conn, r, err := dial(ctx, p.Ident())
		cancel()
		if err == nil {
			p.learn(r)
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.conn != nil {
				p.conn.Close()
			}
			if p.conn, p.room = conn, 0; p.detached {
				conn.Close()
			}
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

func exitOf(x *frame.Exited) Exit {
	return Exit{Code: int(x.Code), Signal: int(x.Signal), OOMKilled: x.OOM, FinishedAt: time.Unix(0, x.FinishedAt), LeaseEnded: x.LeaseEnded, keeps: x.Keeps}
}

// ExitOf is the exit that is on record at a state path.
func ExitOf(state string) (Exit, bool) { return readExit(state) }

// readExit reads the record of an exit: also one that has not got its name, as when the supervising process was killed
// before.
func readExit(state string) (Exit, bool) {
	for _, ending := range []string{".exit", ".lock"} {
		b, err := readWhole(state + ending)
		var x frame.Exited
		if err == nil && x.Decode(b) == nil {
			return exitOf(&x), true
		}
	}
	return Exit{}, false
}

// wantTries and wantPause bound the wait for descriptors and memory.
const (
	wantTries = 100
	wantPause = 20 * time.Millisecond
)

// readWhole reads a file. One that cannot be read for want of descriptors is not treated as none at once.
func readWhole(path string) (b []byte, err error) {
	for range wantTries {
		b, err = os.ReadFile(path)
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) && !errors.Is(err, syscall.ENOMEM) {
			break
		}
		time.Sleep(wantPause)
	}
	return b, err
}

// ended makes a process that was found with its exit on record.
func ended(id Ident, x Exit) *Process {
	p := &Process{ident: id, exit: x, done: make(chan struct{})}
	close(p.done)
	return p
}

var errGone = errors.New("no supervising process answers")

// Remove removes the files at a state path.
func Remove(state string) error {
	return errors.Join(remove(state, ".sock"), RemoveExit(state))
}

// RemoveExit removes the files at a state path except the socket, which a process that keeps a lease still serves. The
// lock goes first: a supervising process that still tries to keep the exit makes the record of it.
func RemoveExit(state string) error { return remove(state, ".lock", ".exit.tmp", ".exit") }

// unlink is a variable for tests.
var unlink = os.Remove

func remove(state string, endings ...string) error {
	var errs []error
	for _, ending := range endings {
		if err := unlink(state + ending); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
