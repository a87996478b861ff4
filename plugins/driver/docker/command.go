package docker

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/command"
)

// endWait is how long the end of a container may take to be known after a command of it was lost.
const endWait = 5 * time.Second

// Exec runs a command inside the container of a task. It implements [driver.Execer].
func (d *Driver) Exec(ctx context.Context, id string, c *driver.Command) (int, error) {
	t, err := d.task(id)
	if err != nil {
		return 0, err
	}
	ended := fault.New(fault.Conflict, "task %s has ended: commands run in running tasks only", id)
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case len(c.Args) == 0 || c.Args[0] == "":
		return 0, fault.New(fault.Invalid, "task %s: the command is empty: give a program", id)
	case strings.ContainsRune(strings.Join(c.Args, ""), 0):
		return 0, fault.New(fault.Invalid, "task %s: a NUL byte in the command", id)
	case t.ended():
		return 0, ended
	}
	code, started, err := command.Run(ctx, d.engine, t.container, t.done, c)
	if !errors.Is(err, fault.NotFound) && !errors.Is(err, fault.Conflict) || ctx.Err() != nil {
		return code, err
	}
	// The engine does not know the command, or refuses it: because the container has ended, or because the engine was started again.
	switch {
	case !t.waitFor(ctx, endWait) && ctx.Err() != nil:
		return 0, ctx.Err()
	case !t.ended():
		return 0, fault.New(fault.Unavailable, "task %s: the command was lost: %w", id, err)
	case started:
		return 128 + int(syscall.SIGKILL), nil // it is killed with the container
	}
	return 0, ended
}
