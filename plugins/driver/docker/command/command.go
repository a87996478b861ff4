package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/engine"
	"github.com/open-nomad/open-nomad/plugins/driver/stdio"
)

const (
	// askMax bounds a question to the engine.
	askMax = 30 * time.Second
	// lookPause is the pause between questions about a command that is starting or ending.
	lookPause = 20 * time.Millisecond
	// lastOutput is how long the last output may take to come after the end of the container.
	lastOutput = time.Second
	// writeWait bounds the wait for a writer of output that does not return though the command has ended.
	writeWait = 10 * time.Second
)

// Codes of commands whose program cannot be executed or does not exist.
const (
	notExecutable = 126
	notFound      = 127
)

// run is one command.
type run struct {
	engine    *client.Client
	container string
	id        string
	attached  bool
	ended     <-chan struct{}
	*driver.Command
}

// Run runs a command in a container and returns its exit code. When ctx ends first the command is killed and the error of ctx is
// returned. An error of class fault.NotFound or fault.Conflict means that the engine does not know the command any more, or
// refuses it: the container has ended, or the engine was started again. started reports whether the command was accepted.
// ended is closed when the container has ended.
func Run(ctx context.Context, c *client.Client, container string, ended <-chan struct{}, command *driver.Command) (code int, started bool, err error) {
	r := &run{engine: c, container: container, ended: ended, Command: command}
	size := r.firstSize()
	if err := r.create(ctx, size); err != nil {
		return 0, false, err
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	code, err = r.run(running, cancel, size)
	if err != nil && !errors.Is(err, fault.Invalid) {
		r.kill(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return 0, true, ctx.Err()
	case running.Err() != nil:
		return 0, true, context.Cause(running)
	}
	return code, r.attached, err
}

func (r *run) firstSize() (size driver.TerminalSize) {
	if r.TTY {
		select {
		case size = <-r.Resize:
		default:
		}
	}
	return size
}

func cells(n int) uint { return uint(min(max(n, 0), math.MaxUint16)) }

func (r *run) error(what string, err error) error {
	return engine.Error(fmt.Sprintf("%s in container %.12s", what, r.container), err)
}

func (r *run) create(ctx context.Context, size driver.TerminalSize) error {
	asking, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	reply, err := r.engine.ExecCreate(asking, r.container, client.ExecCreateOptions{
		TTY: r.TTY, ConsoleSize: client.ConsoleSize{Height: cells(size.Height), Width: cells(size.Width)}, AttachStdin: r.Stdin != nil, AttachStdout: true, AttachStderr: true, Cmd: r.Args,
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.id = reply.ID
	return r.error("make a command", err)
}

// run starts the command and copies until it has ended.
func (r *run) run(ctx context.Context, fail context.CancelCauseFunc, size driver.TerminalSize) (int, error) {
	starting, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	attached, err := r.engine.ExecAttach(starting, r.id, client.ExecAttachOptions{TTY: r.TTY, ConsoleSize: client.ConsoleSize{Height: cells(size.Height), Width: cells(size.Width)}})
	if err != nil && strings.Contains(err.Error(), refusalText) { // as Podman reports it
		return 0, fault.New(fault.Invalid, "command %s: %w", r.Args[0], err)
	}
	if err != nil {
		return 0, r.error("start a command", err)
	}
	r.attached = true
	defer attached.Close()
	if r.Stdin != nil {
		go r.copyInput(&attached.HijackedResponse) // a read of the input may not end with the command
	}
	var resizing sync.WaitGroup
	defer resizing.Wait()
	resized, stop := context.WithCancel(ctx)
	defer stop()
	if r.TTY && r.Resize != nil {
		resizing.Go(func() { r.resize(resized, size) })
	}
	out := &firstWords{to: writer(r.Stdout)}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		if err := r.copyOutput(out, attached.Reader); err != nil {
			fail(err)
		}
	}()
	select {
	case <-copied:
	case <-ctx.Done():
	case <-r.ended: // engines may leave the connection open
		select {
		case <-copied:
		case <-time.After(lastOutput):
		}
	}
	attached.Close()
	select {
	case <-copied:
	case <-time.After(writeWait):
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	code, started, err := r.exit(ctx)
	if err != nil {
		return 0, err
	}
	if !started && (code == notFound || code == notExecutable) && out.held != nil {
		return 0, fault.New(fault.Invalid, "command %s: %s", r.Args[0], strings.TrimSpace(string(out.held)))
	}
	if err := out.flush(); err != nil {
		fail(err)
		return 0, err
	}
	return code, nil
}

func writer(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

func (r *run) copyInput(to *client.HijackedResponse) {
	if r.TTY {
		stdio.Type(to.Conn, r.Stdin)
		return
	}
	_, _ = io.Copy(to.Conn, struct{ io.Reader }{r.Stdin})
	_ = to.CloseWrite()
}

// copyOutput copies to the end of the output, and returns the error of the writer.
func (r *run) copyOutput(out io.Writer, from io.Reader) error {
	broken := &reader{from: from}
	var err error
	if r.TTY {
		_, err = io.Copy(out, broken)
	} else {
		_, err = stdcopy.StdCopy(out, writer(r.Stderr), broken)
	}
	if broken.failed || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil // what became of the command is found out from the engine
	}
	return err
}

// reader notes whether it failed.
type reader struct {
	from   io.Reader
	failed bool
}

func (r *reader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	r.failed = r.failed || err != nil && !errors.Is(err, io.EOF)
	return n, err
}

// refusalText begins the output, or is in the error, when the engine could not execute the program.
const refusalText = "OCI runtime"

// firstWords holds output back that begins as the engine's reason for not executing the program.
type firstWords struct {
	to   io.Writer
	held []byte
	any  bool
}

func (w *firstWords) Write(b []byte) (int, error) {
	if !w.any && strings.HasPrefix(string(b), refusalText) {
		w.any, w.held = true, append([]byte{}, b...)
		return len(b), nil
	}
	w.any = true
	if err := w.flush(); err != nil {
		return 0, err
	}
	return w.to.Write(b)
}

func (w *firstWords) flush() error {
	held := w.held
	if w.held = nil; held == nil {
		return nil
	}
	_, err := w.to.Write(held)
	return err
}

// resize sets the size of the terminal. The engine refuses that until the command has started.
func (r *run) resize(ctx context.Context, size driver.TerminalSize) {
	var again <-chan time.Time
	if size != (driver.TerminalSize{}) { // engines before 25.0 start without a size
		again = time.After(0)
	}
	for {
		select {
		case s, more := <-r.Resize:
			if !more {
				return
			}
			size = s
		case <-again:
		case <-ctx.Done():
			return
		}
		again = nil
		options := client.ExecResizeOptions{Height: cells(size.Height), Width: cells(size.Width)}
		if _, err := r.engine.ExecResize(ctx, r.id, options); err != nil {
			again = time.After(lookPause)
		}
	}
}

// exit waits for the exit code. started reports whether the program was executed.
func (r *run) exit(ctx context.Context) (code int, started bool, err error) {
	for {
		x, err := r.look(ctx)
		if err != nil {
			return 0, false, err
		}
		if !x.Running {
			return x.ExitCode, x.PID != 0, nil
		}
		select {
		case <-time.After(lookPause):
		case <-ctx.Done():
			return 0, false, ctx.Err()
		}
	}
}

func (r *run) look(ctx context.Context) (client.ExecInspectResult, error) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	x, err := r.engine.ExecInspect(ctx, r.id, client.ExecInspectOptions{})
	return x, r.error("look at a command", err)
}

const (
	// killMax bounds the end of a command, startMax the wait for one whose start may be under way.
	killMax  = 10 * time.Second
	startMax = 2 * time.Second
)

// kill ends the command, also one that is just being started.
func (r *run) kill(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killMax)
	defer cancel()
	for began := time.Now(); ctx.Err() == nil; {
		x, err := r.look(ctx)
		switch {
		case err != nil:
			return
		case x.Running && x.PID != 0:
			if !engine.Kill(x.PID, r.container) {
				return
			}
		case !x.Running && (x.PID != 0 || time.Since(began) > startMax):
			return
		}
		select {
		case <-time.After(lookPause):
		case <-ctx.Done():
		}
	}
}
