package alloc

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
)

// Logs is "nomad alloc logs".
func Logs(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "print the output of a task", Args: "<allocation> [<task>]", Min: 1, Max: 2,
		Flags: append(endFlags(),
			session.Verbose(),
			&cli.BoolFlag{Name: "stderr", Usage: "print stderr"},
			&cli.BoolFlag{Name: "stdout", Usage: "print stdout"},
			&cli.BoolFlag{Name: "f", Usage: "follow the output"},
			&cli.StringFlag{Name: "task", Usage: "`name` of the task"},
			&cli.BoolFlag{Name: "job", Usage: "the argument is a job; any of its allocations is used"},
			&cli.StringFlag{Name: "group", Usage: "`name` of the group, with -job"}),
		Run: logs,
	}.Command()
}

func logs(ctx context.Context, s *session.Session) error {
	a, err := target(ctx, s)
	if err != nil {
		return err
	}
	t, err := task(s, a)
	if err != nil {
		return err
	}
	if s.Bool("stderr") && s.Bool("stdout") || s.Bool("f") && !s.Bool("stderr") && !s.Bool("stdout") {
		return both(ctx, s, a.ID, t)
	}
	kind := api.LogStdout
	if s.Bool("stderr") {
		kind = api.LogStderr
	}
	return show(ctx, s, a.ID, t, kind, s.Out)
}

// both prints stdout and stderr to our own streams, side by side when they are followed.
func both(ctx context.Context, s *session.Session, alloc, task string) error {
	if !s.Bool("f") {
		return errors.Join(show(ctx, s, alloc, task, api.LogStdout, s.Out), show(ctx, s, alloc, task, api.LogStderr, s.Err))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var errs [2]error
	var wait sync.WaitGroup
	wait.Go(func() { errs[0] = show(ctx, s, alloc, task, api.LogStdout, s.Out) })
	wait.Go(func() { errs[1] = show(ctx, s, alloc, task, api.LogStderr, s.Err) })
	wait.Wait()
	return errors.Join(errs[:]...)
}

func show(ctx context.Context, s *session.Session, alloc, task, kind string, out io.Writer) error {
	open := func(ctx context.Context, p rest.FilePart) (io.ReadCloser, error) {
		return s.Logs(ctx, alloc, rest.LogOptions{Task: task, Kind: kind, Follow: p.Follow, Origin: p.Origin, Offset: p.Offset})
	}
	if err := part(ctx, s, open, out); err != nil {
		return session.Failed("reading logs", err)
	}
	return nil
}
