package supervise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// Start runs the program and, through it, the task of the spec. The directory of Spec.State must exist and hold
// no files of that name.
// An error of class fault.Unavailable may go away. After any error nothing runs, and no files are left, but after a
// [Hang]: then both is so once the kernel has ended what hangs. Start calls began with the pid of the supervising process.
func Start(ctx context.Context, program string, spec *frame.Spec, began func(pid int)) (*Process, error) {
	mark := newMark()
	spec.Env = marked(spec.Env, mark)
	conn, child, rest, err := launch(program, spec.State, mark, frame.Wrap(frame.KindSpec, spec.Encode()))
	if err != nil {
		if !errors.Is(err, fault.Conflict) {
			_ = Remove(spec.State)
		}
		return nil, err
	}
	began(child.Pid)
	p := &Process{child: child, conn: conn, done: make(chan struct{}), ident: Ident{
		State:  spec.State,
		TaskID: spec.TaskID, LeaseOf: spec.LeaseOf, Boot: bootID(), PID: child.Pid, Mark: mark, Scopes: spec.Scopes, Memory: spec.Memory,
	}}
	if spec.OwnCgroup {
		p.ident.Cgroup = spec.Cgroup
	}
	p.ident.Ticks, _ = startTicks(child.Pid)
	running, err := p.introduce(ctx, rest)
	if err != nil {
		conn.Close()
		return nil, p.abandon(err)
	}
	p.note(running)
	go p.follow()
	return p, nil
}

// firstFD is the first descriptor behind the standard ones.
const firstFD = 3

// launch starts the program with the first frame in its socket, so that it need not wait for it; rest is what
// did not fit.
func launch(program, state, mark string, first []byte) (conn *net.UnixConn, child *os.Process, rest []byte, err error) {
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
	held, err := lock(state, mark)
	if err != nil {
		conn.Close()
		return nil, nil, nil, err
	}
	defer held.Close()
	rest = offer(conn, first)
	child, err = os.StartProcess(program, []string{programName}, &os.ProcAttr{
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
	if len(rest) > 0 { // else the task may be over now
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
			return nil, fault.Wrap(fault.Unavailable, refused(f.Text))
		}
		return nil, fault.Wrap(fault.Invalid, refused(f.Text))
	}
	return nil, fault.New(fault.Internal, "supervising process: %w", frame.ErrMalformed)
}

// refused is why a supervising process has started nothing.
type refused string

func (r refused) Error() string { return string(r) }

func wrapConn(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("start the supervising process: %w", context.Cause(ctx))
	}
	return fault.New(fault.Unavailable, "talk to the supervising process: %w", err)
}
