package supervise

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// Command is a command that runs inside a task, below its supervising process.
type Command struct {
	task string
	conn *net.UnixConn
}

const (
	// commandStart bounds the start of a command: the file of its program may be on a volume that does not respond.
	commandStart = 10 * time.Second
	// commandKill bounds the wait for the end of a killed command.
	commandKill = 5 * time.Second
	// exitWait is how long an exit may take to be known after the connection of a command broke off.
	exitWait = 2 * time.Second
)

// Command starts a command in the task, with three descriptors as its standard input, output and error; with tty the first
// one becomes its controlling terminal. The caller still has to close them. The command is killed with all that it has
// started when this agent ends.
func (p *Process) Command(ctx context.Context, args []string, tty bool, stdio [3]int) (*Command, error) {
	if p.hasExited() {
		return nil, p.endedError()
	}
	limited, cancel := context.WithTimeout(ctx, commandStart)
	defer cancel()
	go func() { // the kernel may not end a process that waits for a file system
		select {
		case <-p.done:
			cancel()
		case <-limited.Done():
		}
	}()
	conn, err := p.startCommand(limited, &frame.Command{Args: args, TTY: tty}, stdio)
	if err == nil {
		return &Command{task: p.Ident().TaskID, conn: conn}, nil
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case p.hasExited():
		return nil, p.endedError()
	case limited.Err() != nil:
		return nil, fault.New(fault.Unavailable, "run a command in task %s: not started after %v: its file system, or the supervising process, does not respond", p.Ident().TaskID, commandStart)
	}
	return nil, err
}

func (p *Process) startCommand(ctx context.Context, c *frame.Command, stdio [3]int) (*net.UnixConn, error) {
	fd, err := unix.MemfdCreate("command", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "run a command in task %s: %w", p.Ident().TaskID, err)
	}
	file := os.NewFile(uintptr(fd), "command")
	defer file.Close()
	if _, err := file.Write(c.Encode()); err != nil {
		return nil, fault.New(fault.Unavailable, "run a command in task %s: %w", p.Ident().TaskID, err)
	}
	conn, err := p.offerCommand(ctx, fd, stdio)
	if err != nil {
		return nil, err
	}
	kind, body, err := receive(ctx, conn)
	switch {
	case ends(err):
		err = p.lost(ctx, fault.New(fault.Unavailable, "run a command in task %s: the process that starts it has ended", p.Ident().TaskID))
	case err != nil:
		err = fault.New(fault.Unavailable, "run a command in task %s: %w", p.Ident().TaskID, err)
	case kind == frame.KindRunning:
		return conn, nil
	case kind == frame.KindExited: // while the command was started
		err = p.endedError()
	default:
		err = refusal(kind, body)
	}
	conn.Close()
	return nil, err
}

// offerCommand makes the connection of a command, and returns when the supervising process has taken the order. That one
// has places for few connections, and the one of a command needs a place until then.
func (p *Process) offerCommand(ctx context.Context, file int, stdio [3]int) (*net.UnixConn, error) {
	p.starting.Lock()
	defer p.starting.Unlock()
	conn, _, err := dial(ctx, p.Ident())
	if err != nil {
		return nil, p.lost(ctx, err)
	}
	_, _, err = conn.WriteMsgUnix(frame.Wrap(frame.KindCommand, nil), unix.UnixRights(file, stdio[0], stdio[1], stdio[2]), nil)
	var kind frame.Kind
	if err == nil {
		kind, _, err = receive(ctx, conn)
	}
	switch {
	case ends(err) || errors.Is(err, syscall.EPIPE):
		err = p.lost(ctx, fault.New(fault.Unimplemented,
			"task %s was started by an older agent, which cannot run commands in it: restart the task", p.Ident().TaskID))
	case err != nil:
		err = fault.New(fault.Unavailable, "run a command in task %s: %w", p.Ident().TaskID, err)
	case kind == frame.KindCommand:
		return conn, nil
	case kind == frame.KindExited:
		err = p.endedError()
	default:
		err = fault.New(fault.Internal, "supervising process: %w", frame.ErrMalformed)
	}
	conn.Close()
	return nil, err
}

// receive reads a frame while ctx lasts.
func receive(ctx context.Context, conn *net.UnixConn) (frame.Kind, []byte, error) {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	kind, body, err := readFrame(conn)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	return kind, body, err
}

// refusal is the error of a command that was not started.
func refusal(kind frame.Kind, body []byte) error {
	var f frame.Failed
	switch {
	case kind != frame.KindFailed || f.Decode(body) != nil:
		return fault.New(fault.Internal, "supervising process: %w", frame.ErrMalformed)
	case f.Again:
		return fault.Wrap(fault.Unavailable, refused(f.Text))
	}
	return fault.Wrap(fault.Invalid, refused(f.Text))
}

// lost replaces the error of a connection when the reason for it is that the task has ended.
func (p *Process) lost(ctx context.Context, err error) error {
	select {
	case <-p.done:
		return p.endedError()
	case <-time.After(exitWait):
	case <-ctx.Done():
	}
	if errors.Is(err, errGone) || !alive(p.Ident().PID, p.Ident().Ticks) {
		return fault.New(fault.Unavailable, "reach the supervising process of task %s: %w", p.Ident().TaskID, err)
	}
	return err
}

func (p *Process) hasExited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *Process) endedError() error {
	return fault.New(fault.Conflict, "task %s has ended: commands run in running tasks only", p.Ident().TaskID)
}

// killedCode is the exit code of a command that ended with its task.
const killedCode = 128 + int(syscall.SIGKILL)

// Wait returns the exit code of the command, 128 + signal after a signal. When ctx ends first it kills the command and
// all that it has started, and returns the error of ctx. Call it once.
func (c *Command) Wait(ctx context.Context) (int, error) {
	defer c.conn.Close()
	stop := context.AfterFunc(ctx, func() {
		_ = c.conn.SetDeadline(time.Now().Add(commandKill))
		_, _ = c.conn.Write(frame.Wrap(frame.KindKill, nil))
	})
	defer stop()
	kind, body, err := readFrame(c.conn)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if ends(err) {
		return killedCode, nil // it is killed with the process that waits for it
	}
	if err != nil {
		return 0, fault.New(fault.Unavailable, "wait for a command in task %s: %w", c.task, err)
	}
	var x frame.Exited
	if kind != frame.KindExited || x.Decode(body) != nil {
		return 0, fault.New(fault.Internal, "supervising process: %w", frame.ErrMalformed)
	}
	return int(x.Code), nil
}
