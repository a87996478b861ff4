package stdio

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// silence is how long a terminal may have nothing to read, after the process has ended, before its output is complete: the
// kernel moves output from one side to the other in the background.
const silence = 250 * time.Millisecond

// output is what a process writes.
type output struct {
	from     *os.File
	to       io.Writer
	terminal bool
	done     chan struct{} // closed when nothing more is written
}

// end makes copy return when what was written so far is copied: other processes may hold the other end open.
func (o *output) end() { _ = o.from.SetReadDeadline(time.Unix(1, 0)) }

// copy copies until the end of the output, and returns the error of the writer.
func (o *output) copy() error {
	buf := make([]byte, 32<<10)
	for {
		n, err := o.from.Read(buf)
		if n > 0 {
			if _, err := o.to.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && o.terminal:
			return o.finishTerminal(buf)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return o.finishPipe(buf)
		case err != nil: // the end, which a terminal reports as an error
			return nil
		}
	}
}

// finishPipe copies what is in the pipe.
func (o *output) finishPipe(buf []byte) error {
	_ = o.from.SetReadDeadline(time.Time{})
	raw, err := o.from.SyscallConn()
	if err != nil {
		return nil // it is closed
	}
	left := 0
	if raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) != nil || err != nil {
		return nil
	}
	for left > 0 {
		n, err := o.from.Read(buf[:min(left, len(buf))])
		if n > 0 {
			if _, err := o.to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if left -= n; err != nil {
			return nil
		}
	}
	return nil
}

// finishTerminal copies until the terminal is silent.
func (o *output) finishTerminal(buf []byte) error {
	for {
		_ = o.from.SetReadDeadline(time.Now().Add(silence))
		n, err := o.from.Read(buf)
		if n > 0 {
			if _, err := o.to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}
