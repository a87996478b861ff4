package variables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
)

// pipeMax is how long output is read after the end of the command; processes that it left may keep the pipes open.
const pipeMax = time.Second

// command is the child: a process group of its own, in the foreground of the terminal if there is one, so that
// the terminal sends its signals to the child.
func (l *lease) command(args []string) *exec.Cmd {
	if l.s.Bool("shell") {
		shell := os.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		args = []string{shell, "-c", strings.Join(args, " ")}
	}
	c := exec.Command(args[0], args[1:]...) //nolint:gosec // the command is what the user asks to run
	c.Stdin, c.Stdout, c.Stderr, c.WaitDelay = l.s.Input, l.s.Out, l.s.Err, pipeMax
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if in, ok := l.s.Input.(*os.File); ok {
		if _, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS); err == nil {
			c.SysProcAttr.Foreground, c.SysProcAttr.Ctty = true, int(in.Fd())
		}
	}
	return c
}

// run runs the child until it ends. It ends the child when the lock is lost or the context ends.
func (l *lease) run(ctx context.Context, signals <-chan os.Signal, args []string) error {
	c := l.command(args)
	started, done := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the child gets SIGKILL when the thread that started it ends
		defer runtime.UnlockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			done <- c.Wait()
		}
	}()
	if err := <-started; err != nil {
		return session.Failed("running command", fault.Wrap(fault.Invalid, err))
	}
	keeping, stop := context.WithCancel(ctx)
	lost := make(chan error, 1)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if err := l.keep(keeping); err != nil {
			lost <- err
		}
	}()
	defer func() { stop(); <-kept }()
	group := -c.Process.Pid
	for {
		select {
		case err := <-done:
			return exitOf(err)
		case s := <-signals:
			if number, ok := s.(syscall.Signal); ok {
				_ = syscall.Kill(group, number)
			}
		case err := <-lost:
			end(group, done, l.delay)
			return session.Failed("holding the lock, the command was ended", err)
		case <-ctx.Done():
			end(group, done, l.delay)
			return ctx.Err()
		}
	}
}

// end ends a process group: by SIGTERM, and by SIGKILL once the grace has passed.
func end(group int, done <-chan error, grace time.Duration) {
	_ = syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-done:
		_ = syscall.Kill(group, syscall.SIGKILL) // what the child left behind
	case <-time.After(grace):
		_ = syscall.Kill(group, syscall.SIGKILL)
		<-done
	}
}

// exitOf is the exit code of the child; one that a signal ended has 128 and the signal's number, as in shells.
func exitOf(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return nil
	case !errors.As(err, &exit):
		return session.Failed("running command", err)
	}
	code := exit.ExitCode()
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &session.Exit{Code: 128 + int(status.Signal()), Text: fmt.Sprintf("The command was ended by signal %s", status.Signal())}
	}
	return &session.Exit{Code: code}
}
