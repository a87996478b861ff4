package alloc

import (
	"cmp"
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/session"
)

// Stop is "nomad alloc stop".
func Stop(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "stop an allocation and reschedule it", Args: "<allocation>", Min: 1, Max: 1,
		Flags: []cli.Flag{
			session.Verbose(), session.Detach(),
			&cli.BoolFlag{Name: "no-shutdown-delay", Usage: "do not wait for shutdown delays"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			a, err := target(ctx, s)
			if err != nil {
				return err
			}
			live := s.Live("Stopping the allocation")
			out, err := s.StopAlloc(ctx, a.ID, s.Bool("no-shutdown-delay"))
			live.End()
			if err != nil {
				return session.Failed("stopping allocation", err)
			}
			if s.Bool("detach") {
				s.Println(out.EvalID)
				return nil
			}
			return monitor.Eval(ctx, s, out.EvalID)
		},
	}.Command()
}

// Restart is "nomad alloc restart".
func Restart(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "restart the tasks of an allocation in place", Args: "<allocation> [<task>]", Min: 1, Max: 2,
		Flags: []cli.Flag{
			session.Verbose(),
			&cli.BoolFlag{Name: "all-tasks", Usage: "also restart tasks that have ended"},
			&cli.StringFlag{Name: "task", Usage: "`name` of the task"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			a, err := target(ctx, s)
			if err != nil {
				return err
			}
			name := taskOf(s)
			if name != "" && s.Bool("all-tasks") {
				return fault.New(fault.Invalid, "-all-tasks cannot be combined with a task argument")
			}
			if err := s.RestartAlloc(ctx, a.ID, name, s.Bool("all-tasks")); err != nil {
				return session.Failed("restarting allocation", err)
			}
			return nil
		},
	}.Command()
}

// Signal is "nomad alloc signal".
func Signal(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "send a signal to tasks of an allocation", Args: "<allocation> [<task>]", Min: 1, Max: 2,
		Flags: []cli.Flag{
			session.Verbose(),
			&cli.StringFlag{Name: "s", Value: "SIGKILL", Usage: "`name` of the signal"},
			&cli.StringFlag{Name: "task", Usage: "`name` of the task"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			a, err := target(ctx, s)
			if err != nil {
				return err
			}
			name := taskOf(s)
			if err := s.SignalAlloc(ctx, a.ID, name, s.String("s")); err != nil {
				return session.Failed("signalling allocation", err)
			}
			return nil
		},
	}.Command()
}

// Pause is "nomad alloc pause".
func Pause(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "pause or run a task with a schedule, or give it back to its schedule", Args: "<allocation> [<task>]", Min: 1, Max: 2,
		Flags: []cli.Flag{
			session.Verbose(),
			&cli.StringFlag{Name: "state", Value: api.SchedulePause, Usage: "`state` of the task: pause, run or scheduled"},
			&cli.BoolFlag{Name: "status", Usage: "show whether the task is paused, and change nothing"},
			&cli.StringFlag{Name: "task", Usage: "`name` of the task"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			a, err := target(ctx, s)
			if err != nil {
				return err
			}
			name := taskOf(s)
			if s.Bool("status") {
				state, err := s.AllocPauseState(ctx, a.ID, name)
				if err != nil {
					return session.Failed("reading the schedule state", err)
				}
				s.Println(state)
				return nil
			}
			if err := s.PauseAlloc(ctx, a.ID, name, s.String("state")); err != nil {
				return session.Failed("changing the schedule state", err)
			}
			return nil
		},
	}.Command()
}

// taskOf is the task that a command names by its flag or its second argument; empty for all tasks.
func taskOf(s *session.Session) string { return cmp.Or(s.String("task"), s.Arg(1)) }
