package mock

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"syscall"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

var _ driver.Execer = (*Driver)(nil)

// Exec plays a command inside a running task, without a process. The programs are echo, which prints its arguments; cat,
// which copies its input; exit, which ends with the code of its argument; and sleep, which runs as long as the task.
func (d *Driver) Exec(ctx context.Context, id string, c *driver.Command) (int, error) {
	t, err := d.task(id)
	if err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	select {
	case <-t.done:
		return 0, fault.New(fault.Conflict, "task %s has ended: commands run in running tasks only", id)
	default:
	}
	if len(c.Args) == 0 {
		return 0, fault.New(fault.Invalid, "task %s: the command is empty: give a program", id)
	}
	switch args := c.Args[1:]; c.Args[0] {
	case "echo":
		return 0, write(c.Stdout, []byte(strings.Join(args, " ")+"\n"))
	case "exit":
		return exitCode(id, args)
	case "cat":
		return t.copies(ctx, c)
	case "sleep":
		return t.follows(ctx, nil, nil)
	}
	return 0, fault.New(fault.Invalid, "task %s: driver %s has no program %q: use echo, cat, exit or sleep", id, Name, c.Args[0])
}

func exitCode(id string, args []string) (int, error) {
	if len(args) == 1 {
		if code, err := strconv.ParseUint(args[0], 10, 8); err == nil {
			return int(code), nil
		}
	}
	return 0, fault.New(fault.Invalid, "task %s: exit takes one number from 0 to 255", id)
}

// input is what one read of a command's input returned.
type input struct {
	data []byte
	err  error
}

// copies runs cat. A read of the input cannot be interrupted, so it has a goroutine of its own, which ends after the
// read; all output is written by the caller's goroutine, and so none comes after the return.
func (t *task) copies(ctx context.Context, c *driver.Command) (int, error) {
	if c.Stdin == nil {
		return 0, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inputs := make(chan input)
	go func() {
		for {
			buf := make([]byte, 4096)
			n, err := c.Stdin.Read(buf)
			select {
			case inputs <- input{data: buf[:n], err: err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return t.follows(ctx, inputs, c.Stdout)
}

// follows writes inputs to out until their end, the end of the task or of ctx.
func (t *task) follows(ctx context.Context, inputs <-chan input, out io.Writer) (int, error) {
	for {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-t.done:
			return killed(syscall.SIGKILL).Code, nil
		case in := <-inputs:
			if err := write(out, in.data); err != nil {
				return 0, err
			}
			if errors.Is(in.err, io.EOF) {
				return 0, nil
			}
			if in.err != nil {
				return 0, in.err
			}
		}
	}
}

func write(out io.Writer, data []byte) error {
	if out == nil || len(data) == 0 {
		return nil
	}
	_, err := out.Write(data)
	return err
}
