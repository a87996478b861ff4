package terminal

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/muesli/cancelreader"
	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
)

// Values of -e: without an escape character, and the default.
const (
	escapeNone    = "none"
	escapeDefault = "~"
)

// errEscaped means that the user has ended the session.
var errEscaped = errors.New("ended by the escape sequence")

// Flags are those of verbs that run a command in a task.
func Flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "task", Usage: "`name` of the task; needed when there are several"},
		&cli.StringFlag{Name: "group", Usage: "`name` of the group, with -job"},
		&cli.BoolFlag{Name: "i", Value: true, Usage: "pass the input on; -i=false closes it"},
		&cli.BoolFlag{Name: "t", Usage: "give the command a terminal; the default is whether input and output are one"},
		&cli.StringFlag{Name: "e", Value: escapeDefault, Usage: "escape `character` for a session with a terminal; none disables it. After a line feed, ~. ends the session"},
	}
}

// Run runs a command in a task, connected to the terminal or the files of the user. It returns an [session.Exit] with the
// exit code of the command.
func Run(ctx context.Context, s *session.Session, alloc string, o rest.ExecOptions) error {
	input, tty, err := mode(s)
	if err != nil {
		return err
	}
	if input {
		o.Stdin = s.Input
	}
	return connect(ctx, s, alloc, o, tty, s.String("e"))
}

// Shell runs a command with the terminal of the user, whatever the flags are. After it, nothing reads the input any more.
func Shell(ctx context.Context, s *session.Session, alloc string, o rest.ExecOptions) error {
	f, ok := s.Input.(*os.File)
	if !ok {
		return fault.New(fault.Invalid, "a shell needs a terminal")
	}
	in, err := cancelreader.NewReader(f)
	if err != nil {
		return fault.New(fault.Internal, "read the terminal: %w", err)
	}
	keys := &interruptible{from: in}
	defer keys.end()
	o.Stdin = keys
	return connect(ctx, s, alloc, o, true, escapeDefault)
}

// interruptible is an input whose reads can be ended, so that none of them takes a key that is meant for what follows.
type interruptible struct {
	from cancelreader.CancelReader
	mu   sync.Mutex
}

// Read implements [io.Reader].
func (i *interruptible) Read(into []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.from.Read(into)
}

// end ends the read that waits, and all later ones.
func (i *interruptible) end() {
	if i.from.Cancel() {
		i.mu.Lock() // the read has returned: its descriptors may be closed
		defer i.mu.Unlock()
	}
	_ = i.from.Close()
}

func connect(ctx context.Context, s *session.Session, alloc string, o rest.ExecOptions, tty bool, char string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o.TTY, o.Stdout, o.Stderr = tty, s.Out, s.Err
	input := o.Stdin != nil
	if input && tty && char != escapeNone {
		if len(char) != 1 {
			return fault.New(fault.Invalid, "-e %q is neither one character nor %s", char, escapeNone)
		}
		o.Stdin = newEscapeReader(o.Stdin, char[0], func() { cancel(errEscaped) })
	}
	restore, err := func() {}, error(nil)
	if tty {
		if restore, err = raw(s.Input, input); err != nil {
			return err
		}
		sizes, stop := watchSize(ctx, s.Out)
		defer stop()
		o.Sizes = sizes
	}
	defer restore()
	code, err := s.Exec(ctx, alloc, o)
	restore()
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errEscaped):
		s.Print("\nThe session was ended by the escape sequence.\n")
		return &session.Exit{Code: 1}
	case err != nil:
		return session.Failed("running the command", err)
	case code != 0:
		return &session.Exit{Code: code}
	}
	return nil
}

// mode returns whether the input is passed on, and whether the command has a terminal.
func mode(s *session.Session) (input, tty bool, err error) {
	input, tty = s.Bool("i"), s.Bool("t")
	terminals := Is(s.Input) && Is(s.Out)
	switch {
	case !s.IsSet("t"):
		tty = input && terminals
	case tty && !input && s.IsSet("i"):
		return false, false, fault.New(fault.Invalid, "-t needs the input: it cannot be combined with -i=false")
	case tty && !Is(s.Input):
		return false, false, fault.New(fault.Invalid, "-t needs a terminal, and the input is none: use -t=false")
	}
	return input, tty, nil
}

// Is reports whether an input or output is a terminal.
func Is(of any) bool {
	f, ok := of.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// raw passes all keys of the terminal on; the function that it returns undoes that.
func raw(input io.Reader, used bool) (restore func(), err error) {
	f, ok := input.(*os.File)
	if !ok || !used {
		return func() {}, nil
	}
	fd := int(f.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, errors.Join(errors.New("the terminal cannot pass all keys on: use -t=false"), err)
	}
	return func() { _ = term.Restore(fd, before) }, nil
}

// watchSize sends the size of the terminal now and after each change, until ctx ends.
func watchSize(ctx context.Context, out any) (sizes <-chan api.TerminalSize, stop func()) {
	f, ok := out.(*os.File)
	if !ok {
		return nil, func() {}
	}
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	all := make(chan api.TerminalSize)
	go func() {
		for {
			if width, height, err := term.GetSize(int(f.Fd())); err == nil {
				select {
				case all <- api.TerminalSize{Width: width, Height: height}:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-changes:
			case <-ctx.Done():
				return
			}
		}
	}()
	return all, func() { signal.Stop(changes) }
}
