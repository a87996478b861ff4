package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
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
	// Cgroup is the task's own cgroup directory, when it has one.
	Cgroup string `json:",omitempty"`
	// Marks are the parts of the task's environment by which its processes are known.
	Marks []string `json:",omitempty"`
}

// Exit is how a task ended. Lost means that the supervising process vanished without a record.
type Exit struct {
	Code      int
	Signal    int
	OOMKilled bool
	Lost      bool
	// LeaseEnded means that the supervising process ended the task because its lease was over.
	LeaseEnded bool
	FinishedAt time.Time
}

// Process is a supervising process and its task.
type Process struct {
	ident Ident
	child *os.Process // nil when an earlier agent started it
	done  chan struct{}
	exit  Exit // valid after done is closed

	mu sync.Mutex
	// conn is nil while the supervising process has not answered.
	conn     *net.UnixConn
	detached bool
	// givenUp is set when the supervising process is taken for gone whatever the kernel says.
	givenUp bool
}

// Start runs the program and, through it, the task of the spec. The directory of Spec.State must exist and hold
// no files of that name.
// An error of class fault.Unavailable may go away; after any error nothing runs.
func Start(ctx context.Context, program string, spec *frame.Spec) (*Process, error) {
	conn, child, rest, err := launch(program, spec.State, frame.Wrap(frame.KindSpec, spec.Encode()))
	if err != nil {
		return nil, err
	}
	p := &Process{child: child, conn: conn, done: make(chan struct{}), ident: Ident{
		State:  spec.State,
		TaskID: spec.TaskID, Boot: bootID(), PID: child.Pid, Marks: marksOf(spec.Env),
	}}
	if spec.OwnCgroup {
		p.ident.Cgroup = spec.Cgroup
	}
	running, err := p.introduce(ctx, rest)
	if err != nil {
		conn.Close()
		_ = child.Kill()
		_, _ = child.Wait()
		return nil, err
	}
	p.ident.Ticks, _ = startTicks(child.Pid)
	p.note(running)
	go p.follow()
	return p, nil
}

// firstFD is the first descriptor behind the standard ones.
const firstFD = 3

// launch starts the program with the first frame in its socket, so that it need not wait for it; rest is what
// did not fit.
func launch(program, state string, first []byte) (conn *net.UnixConn, child *os.Process, rest []byte, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, nil, fault.New(fault.Unavailable, "make a socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "supervisor"), os.NewFile(uintptr(fds[1]), "agent")
	defer ours.Close()
	defer theirs.Close()
	// What this process got from who started it is not for tasks, nor to be held for as long as they run.
	_ = unix.CloseRange(firstFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, nil, fault.New(fault.Unavailable, "start the supervising process: %w", err)
	}
	defer null.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, nil, fault.New(fault.Unavailable, "start the supervising process: %w", err)
	}
	conn = c.(*net.UnixConn)
	held, err := lock(state)
	if err != nil {
		conn.Close()
		return nil, nil, nil, err
	}
	defer held.Close()
	rest = offer(conn, first)
	child, err = os.StartProcess(program, []string{"nomad-supervise"}, &os.ProcAttr{
		Dir: filepath.Dir(state),
		Env: []string{"GOMAXPROCS=1"}, Files: []*os.File{null, null, null, theirs, held}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		conn.Close()
		return nil, nil, nil, fault.New(fault.Unavailable, "start the supervising process: %w", err)
	}
	return conn, child, rest, nil
}

// offer writes as much as fits without anybody reading, and returns the rest.
func offer(conn *net.UnixConn, b []byte) (rest []byte) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return b
	}
	n := 0
	_ = raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), b)
		return true
	})
	return b[max(n, 0):]
}

// introduce hands over what did not fit before, and hears whether the task runs.
func (p *Process) introduce(ctx context.Context, rest []byte) (*frame.Running, error) {
	stop := context.AfterFunc(ctx, func() { p.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if len(rest) > 0 { // else the task may be over by now
		if _, err := p.conn.Write(rest); err != nil {
			return nil, wrapConn(ctx, err)
		}
	}
	kind, body, err := readFrame(p.conn)
	if err != nil {
		return nil, wrapConn(ctx, err)
	}
	switch kind {
	case frame.KindRunning:
		var r frame.Running
		return &r, r.Decode(body)
	case frame.KindFailed:
		var f frame.Failed
		if err := f.Decode(body); err != nil {
			return nil, err
		}
		if f.Again {
			return nil, fault.New(fault.Unavailable, "%s", f.Text)
		}
		return nil, fault.New(fault.Invalid, "%s", f.Text)
	}
	return nil, fault.New(fault.Internal, "supervising process: %w", frame.ErrMalformed)
}

func wrapConn(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("start the supervising process: %w", context.Cause(ctx))
	}
	return fault.New(fault.Unavailable, "talk to the supervising process: %w", err)
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

func (p *Process) note(r *frame.Running) {
	p.ident.TaskPID = int(r.PID)
	p.ident.TaskTicks, _ = startTicks(int(r.PID))
	p.ident.StartedAt = time.Unix(0, r.StartedAt)
}

// Ident is what to store.
func (p *Process) Ident() Ident { return p.ident }

// Done is closed when the task has exited and its tree is gone.
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

// Renew moves on the time, a reading of CLOCK_BOOTTIME in nanoseconds, from which the task's lease counts.
func (p *Process) Renew(from int64) error {
	return p.command(frame.Wrap(frame.KindLease, frame.Time(from)))
}

// commandWait bounds handing over an order: one who reads nothing has room for many.
const commandWait = 100 * time.Millisecond

// command hands over an order; one that fails because the process just ended is carried out.
func (p *Process) command(b []byte) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	err := p.hand(b)
	if err == nil {
		return nil
	}
	if !alive(p.ident.PID, p.ident.Ticks) {
		return nil
	}
	return fault.New(fault.Unavailable, "talk to the supervising process of task %s: %w", p.ident.TaskID, err)
}

func (p *Process) hand(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		return errGone
	}
	_ = p.conn.SetWriteDeadline(time.Now().Add(commandWait))
	_, err := p.conn.Write(b)
	return err
}

// Detach lets go of a task that runs on: nothing more is learnt about it and Done is never closed.
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
		if x, ok := readExit(p.ident.State); ok {
			p.exit = x
			break
		}
		if !p.reconnect() {
			if p.isDetached() {
				return
			}
			x, ok := readExit(p.ident.State)
			if !ok {
				x = Exit{Lost: true, FinishedAt: time.Now()}
			}
			p.exit = x
			break
		}
	}
	if p.conn != nil {
		p.conn.Close()
	}
	p.collect()
	if p.exit.Lost {
		endLeftovers(p.ident)
	}
	close(p.done)
}

// reapWait bounds the wait for the end of a supervising process that has reported the exit: it stays while helpers
// of the task outlive it.
const reapWait = time.Second

// collect reaps, for longer than reapWait beside.
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
	if s, ok := stat(p.ident.PID); ok && s.ticks == p.ident.Ticks && s.parent == os.Getpid() {
		_, _ = syscall.Wait4(p.ident.PID, nil, 0, nil)
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

// reconnect comes back after a broken connection; false means that the supervising process is gone.
func (p *Process) reconnect() bool {
	for alive(p.ident.PID, p.ident.Ticks) && !p.isGivenUp() && !p.isDetached() {
		ctx, cancel := context.WithTimeout(context.Background(), attachTimeout)
		conn, _, err := dial(ctx, p.ident)
		cancel()
		if err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.conn != nil {
				p.conn.Close()
			}
			if p.conn = conn; p.detached {
				conn.Close()
			}
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

func exitOf(x *frame.Exited) Exit {
	return Exit{Code: int(x.Code), Signal: int(x.Signal), OOMKilled: x.OOM, FinishedAt: time.Unix(0, x.FinishedAt), LeaseEnded: x.LeaseEnded}
}

// ExitOf is the exit that is on record at a state path.
func ExitOf(state string) (Exit, bool) { return readExit(state) }

func readExit(state string) (Exit, bool) {
	b, err := os.ReadFile(state + ".exit")
	if err != nil {
		return Exit{}, false
	}
	var x frame.Exited
	if x.Decode(b) != nil {
		return Exit{}, false
	}
	return exitOf(&x), true
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
	var errs []error
	for _, ending := range []string{".sock", ".exit", ".exit.tmp", ".lock"} {
		if err := os.Remove(state + ending); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
