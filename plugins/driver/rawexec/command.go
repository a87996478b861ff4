package rawexec

import (
	"context"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/stdio"
)

// Exec runs a command inside a running task, below its supervising process. It implements [driver.Execer].
func (d *Driver) Exec(ctx context.Context, id string, c *driver.Command) (int, error) {
	t, err := d.task(id)
	if err != nil {
		return 0, err
	}
	if len(c.Args) == 0 || c.Args[0] == "" {
		return 0, fault.New(fault.Invalid, "task %s: the command is empty: give a program", id)
	}
	if strings.ContainsRune(strings.Join(c.Args, ""), 0) {
		return 0, fault.New(fault.Invalid, "task %s: a NUL byte in the command", id)
	}
	streams, err := stdio.Open(c)
	if err != nil {
		return 0, err
	}
	defer streams.Close()
	command, err := t.process.Command(ctx, c.Args, c.TTY, streams.Process())
	if err != nil {
		return 0, err
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	streams.Copy(running, cancel)
	code, err := command.Wait(running)
	if err == nil {
		err = streams.Finish(running)
	}
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case running.Err() != nil:
		return 0, context.Cause(running)
	case err != nil:
		return 0, err
	}
	return code, nil
}
