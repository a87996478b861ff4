// Package oneshot runs executables that the operator of a node installed in a directory: without a shell, for a limited time
// and with limited output. They end with the agent.
package oneshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// drainMax is the time for the output of processes that have been killed.
	drainMax  = time.Second
	outputMax = 256 << 10
	// runsMax is how many executables run at once.
	runsMax = 16
)

var running = make(chan struct{}, runsMax)

// Command is one run of an executable.
type Command struct {
	Dir, Name string
	// Noun is what errors call the executable, such as provider.
	Noun string
	// Env is the environment in addition to PATH.
	Env, Args []string
	// Limit is the time after which the executable is killed with all of its process group.
	Limit time.Duration
	// Daemons lets processes go on that left the process group of an executable that succeeded. Otherwise none is left: as root
	// the executable runs in a pid namespace.
	Daemons bool
	// Stderr receives what is printed there; nil ignores it.
	Stderr io.Writer
}

// Run runs the executable and returns what it printed to stdout, also when it failed.
func (c Command) Run(ctx context.Context) ([]byte, error) {
	program, err := c.executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	select {
	case running <- struct{}{}:
		defer func() { <-running }()
	case <-ctx.Done():
		return nil, fault.New(fault.Invalid, "waited too long for other %ss to end", c.Noun)
	}
	runtime.LockOSThread() // the executable is killed when the thread that started it ends
	defer runtime.UnlockOSThread()
	limited, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	tooMuch := fault.New(fault.Invalid, "the %s was killed because it printed more than %d bytes", c.Noun, outputMax)
	out := &output{full: func() error { stop(tooMuch); return tooMuch }}
	p := c.command(limited, program, out)
	if err = p.Run(); errors.Is(err, syscall.EPERM) && p.Process == nil { // no right to make a pid namespace
		p = c.command(limited, program, out)
		p.SysProcAttr.Cloneflags = 0
		err = p.Run()
	}
	if p.Process != nil && (err != nil || !c.Daemons) {
		_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // what it left in its group
	}
	var exit *exec.ExitError
	switch {
	case errors.Is(context.Cause(limited), tooMuch):
		return nil, tooMuch
	case ctx.Err() != nil:
		return nil, fault.New(fault.Invalid, "the %s was killed because it did not end in time, which is %s", c.Noun, c.Limit)
	case errors.As(err, &exit):
		return out.b.Bytes(), fault.New(fault.Invalid, "the %s failed: %s", c.Noun, exit.ProcessState)
	case err != nil && !(c.Daemons && errors.Is(err, exec.ErrWaitDelay)):
		return nil, fault.New(fault.Invalid, "run the %s: %w", c.Noun, err)
	}
	return out.b.Bytes(), nil
}

// executable returns the path, which only the node's operator may have written.
func (c Command) executable() (string, error) {
	path := filepath.Join(c.Dir, c.Name)
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fault.New(fault.Invalid, "this node has no such %s: install %s", c.Noun, path)
	case err != nil:
		return "", fault.New(fault.Invalid, "look for the %s: %w", c.Noun, err)
	case !st.Mode().IsRegular() || st.Mode()&0o111 == 0:
		return "", fault.New(fault.Invalid, "%s is not an executable file", path)
	case st.Mode()&0o022 != 0:
		return "", fault.New(fault.Invalid, "%s is writable by others than its owner: run chmod go-w", path)
	}
	return path, nil
}

func (c Command) command(ctx context.Context, program string, out io.Writer) *exec.Cmd {
	p := exec.CommandContext(ctx, program, c.Args...)
	p.Env = append([]string{"PATH=" + os.Getenv("PATH")}, c.Env...)
	p.Dir, p.Stdout, p.Stderr, p.WaitDelay = filepath.Dir(program), out, c.Stderr, drainMax
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 && !c.Daemons {
		p.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	}
	p.Cancel = func() error { return syscall.Kill(-p.Process.Pid, syscall.SIGKILL) }
	return p
}

// output keeps what an executable prints, up to a limit.
type output struct {
	b    bytes.Buffer
	full func() error
}

func (o *output) Write(p []byte) (int, error) {
	if o.b.Len()+len(p) > outputMax {
		return 0, o.full()
	}
	return o.b.Write(p)
}
