package stdio

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/driver"
)

// openTerminal makes a terminal, with the first size when that is known.
func (s *Streams) openTerminal() error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	s.input = os.NewFile(uintptr(fd), "terminal of a command")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return os.NewSyscallError("unlock the terminal", err)
	}
	peer, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if e != 0 {
		return os.NewSyscallError("open the other side of the terminal", e)
	}
	s.process = [3]int{int(peer), int(peer), int(peer)}
	s.addOutput(s.input, s.command.Stdout)
	select {
	case size, more := <-s.command.Resize:
		if more {
			s.setSize(size)
		}
	default:
	}
	return nil
}

func (s *Streams) resize(ctx context.Context) {
	for {
		select {
		case size, more := <-s.command.Resize:
			if !more {
				return
			}
			s.setSize(size)
		case <-s.outputs[0].done:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (s *Streams) setSize(size driver.TerminalSize) {
	raw, err := s.input.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: cells(size.Width), Row: cells(size.Height)})
	})
}

func cells(n int) uint16 { return uint16(min(max(n, 0), math.MaxUint16)) }

// endOfInput is the character that ends the input of a terminal; in the middle of a line the first one ends the line only.
const endOfInput = 4

// Type copies input to a terminal, and its end as the character for it.
func Type(to io.Writer, from io.Reader) {
	buf, inLine := make([]byte, 4096), false
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
			inLine = !bytes.HasSuffix(buf[:n], []byte("\n")) && !bytes.HasSuffix(buf[:n], []byte("\r"))
		}
		if err != nil {
			break
		}
	}
	end := []byte{endOfInput}
	if inLine {
		end = append(end, endOfInput)
	}
	_, _ = to.Write(end)
}
