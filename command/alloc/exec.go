package alloc

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/terminal"
)

// Exec is "nomad alloc exec".
func Exec(name string) *cli.Command {
	c := session.Verb{
		Name: name, Usage: "run a command in a task", Args: "<allocation> <command> [<argument> ...]", Min: 2, Max: -1,
		Description: "Flags come before the allocation; what follows it belongs to the command. The exit code is that of the command.",
		Flags: append(terminal.Flags(),
			&cli.BoolFlag{Name: "job", Usage: "the first argument is a job; any of its allocations is used"}),
		Run: func(ctx context.Context, s *session.Session) error {
			a, err := target(ctx, s)
			if err != nil {
				return err
			}
			task, err := taskNamed(s, a, s.String("task"))
			if err != nil {
				return err
			}
			return terminal.Run(ctx, s, a.ID, rest.ExecOptions{Task: task, Command: s.Args[1:]})
		},
	}.Command()
	first := 1
	c.StopOnNthArg = &first
	return c
}
