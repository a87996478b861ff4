package stdio

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// writeWait bounds the wait for a writer of output that does not return though the command has ended.
const writeWait = 10 * time.Second

// Streams are the streams of one process.
type Streams struct {
	command *driver.Command
	process [3]int // the ends for the process
	input   *os.File
	outputs []*output
	copying sync.WaitGroup
}

// Open makes pipes, or a terminal.
func Open(c *driver.Command) (*Streams, error) {
	s := &Streams{command: c, process: [3]int{-1, -1, -1}}
	open := s.openPipes
	if c.TTY {
		open = s.openTerminal
	}
	if err := open(); err != nil {
		s.Close()
		return nil, fault.New(fault.Unavailable, "make the streams of a command: %w", err)
	}
	return s, nil
}

func (s *Streams) openPipes() (err error) {
	if s.command.Stdin == nil {
		s.process[0], err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	} else {
		s.process[0], s.input, err = pipe(true)
	}
	for i, to := range []io.Writer{s.command.Stdout, s.command.Stderr} {
		if err != nil {
			return err
		}
		var from *os.File
		if s.process[1+i], from, err = pipe(false); err == nil {
			s.addOutput(from, to)
		}
	}
	return err
}

func (s *Streams) addOutput(from *os.File, to io.Writer) {
	if to == nil {
		to = io.Discard
	}
	s.outputs = append(s.outputs, &output{from: from, to: to, terminal: s.command.TTY, done: make(chan struct{})})
}

// pipe makes a pipe. The end of the process is one that waits, the other one is not.
func pipe(input bool) (process int, ours *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, nil, err
	}
	theirs, mine := p[1], p[0]
	if input {
		theirs, mine = p[0], p[1]
	}
	if err := unix.SetNonblock(mine, true); err != nil {
		return -1, nil, errors.Join(err, unix.Close(theirs), unix.Close(mine))
	}
	return theirs, os.NewFile(uintptr(mine), "stream of a command"), nil
}

// Process are the descriptors for the process: its standard input, output and error. They are valid until Copy.
func (s *Streams) Process() [3]int { return s.process }

// Copy begins to copy, when the process has the descriptors. The first error of a writer goes to fail.
func (s *Streams) Copy(ctx context.Context, fail context.CancelCauseFunc) {
	s.closeProcess()
	for _, o := range s.outputs {
		s.copying.Go(func() {
			defer close(o.done)
			if err := o.copy(); err != nil {
				fail(err)
			}
		})
	}
	if s.command.Stdin != nil {
		go s.copyInput(s.input) // a read of the input may not end with the command
	}
	if s.command.TTY && s.command.Resize != nil {
		s.copying.Go(func() { s.resize(ctx) })
	}
}

// copyInput copies until the end of the input, or of the process.
func (s *Streams) copyInput(to *os.File) {
	if s.command.TTY {
		Type(to, s.command.Stdin)
		return
	}
	_, _ = io.Copy(to, onlyReader{s.command.Stdin})
	_ = to.Close()
}

// onlyReader hides the other methods of a reader: those may not return when the other end is closed.
type onlyReader struct{ io.Reader }

// Finish copies what the process has written before it ended. It returns the error of ctx when that ends before.
func (s *Streams) Finish(ctx context.Context) error {
	for _, o := range s.outputs {
		o.end()
	}
	for _, o := range s.outputs {
		select {
		case <-o.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// Close ends all copying. No output is written after it, unless a writer does not return.
func (s *Streams) Close() {
	s.closeProcess()
	if s.input != nil {
		_ = s.input.Close()
	}
	for _, o := range s.outputs {
		_ = o.from.Close()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.copying.Wait()
	}()
	select {
	case <-done:
	case <-time.After(writeWait):
	}
}

func (s *Streams) closeProcess() {
	for i, fd := range s.process {
		if fd >= 0 && (i == 0 || fd != s.process[0]) { // those of a terminal are one
			_ = unix.Close(fd)
		}
	}
	s.process = [3]int{-1, -1, -1}
}
