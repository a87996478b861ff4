package watch

import (
	"context"
	"errors"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/terminal"
)

// Watch is "nomad watch".
func Watch(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show jobs, allocations, volumes and nodes live on the terminal", Args: "[<job or volume>]", Max: 1,
		Description: "The screen follows the cluster. Enter opens what is under the cursor: a job with its allocations and why some\n" +
			"are not placed, an allocation with its events, a volume with its claims, the findings of the doctor and the\n" +
			"commands that help. l shows a log, s opens a shell, x stops, d detaches, / filters, ? lists all keys.\n" +
			"It needs a terminal: scripts use 'nomad job status', 'nomad volume status' and 'nomad event stream'.",
		Run: watch,
	}.Command()
}

func watch(ctx context.Context, s *session.Session) error {
	if !terminal.Is(s.Input) || !terminal.Is(s.Out) || !capable() {
		return fault.New(fault.Invalid, "nomad watch needs a terminal that can move its cursor: use nomad job status, nomad volume status or nomad event stream")
	}
	start := place{}
	if id := s.Arg(0); id != "" {
		var err error
		if start, err = named(ctx, s, id); err != nil {
			return err
		}
	}
	return run(ctx, s, start)
}

// named finds the job or else the volume of an argument.
func named(ctx context.Context, s *session.Session, id string) (place, error) {
	j, err := find.Job(ctx, s, id)
	if err == nil {
		return place{kind: job, namespace: j.Namespace, id: j.ID}, nil
	}
	if !errors.Is(err, fault.NotFound) {
		return place{}, err
	}
	v, err := find.Volume(ctx, s, id)
	switch {
	case errors.Is(err, fault.NotFound):
		return place{}, fault.New(fault.NotFound, "no job and no volume has an id that begins with %q: see nomad job status and nomad volume status", id)
	case err != nil:
		return place{}, err
	}
	return place{kind: volume, namespace: v.Namespace, id: v.ID}, nil
}
