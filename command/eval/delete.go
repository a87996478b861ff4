package eval

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
)

// Delete is "nomad eval delete".
func Delete(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "delete evaluations", Args: "[<evaluation>]", Max: 1,
		Description: "Use this when the scheduler is overloaded. Pause it first:\n" +
			"nomad operator scheduler set-config -pause-eval-broker=true",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "filter", Usage: "use only those that match the filter `expression`"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask for confirmation"},
		},
		Run: remove,
	}.Command()
}

func remove(ctx context.Context, s *session.Session) error {
	filter := s.String("filter")
	switch {
	case filter != "" && len(s.Args) > 0:
		return fault.New(fault.Invalid, "-filter cannot be combined with an evaluation argument")
	case filter == "" && len(s.Args) == 0:
		return fault.New(fault.Invalid, "specify an evaluation or -filter")
	}
	config, err := s.SchedulerConfig(ctx)
	if err != nil {
		return session.Failed("querying scheduler configuration", err)
	}
	if c := config.SchedulerConfig; c == nil || !c.PauseEvalBroker {
		return fault.New(fault.Conflict, "the eval broker is not paused: nomad operator scheduler set-config -pause-eval-broker=true")
	}
	ids, n := []string(nil), 1
	if filter == "" {
		e, err := find.Eval(ctx, s, s.Arg(0))
		if err != nil {
			return err
		}
		s.Client, ids = s.In(e.Namespace), []string{e.ID}
	} else if n, err = s.CountEvals(ctx, rest.Query{Filter: filter}); err != nil {
		return session.Failed("counting evaluations", err)
	}
	if n == 0 {
		s.Println("No evals found")
		return nil
	}
	if sure, err := s.Sure(fmt.Sprintf("Are you sure you want to delete %s?", evals(n)), "Canceling eval deletion"); err != nil || !sure {
		return err
	}
	deleted, err := s.DeleteEvals(ctx, ids, filter)
	if err != nil {
		return session.Failed("deleting evaluations", err)
	}
	s.Printf("Deleted %s\n", evals(deleted))
	return nil
}

func evals(n int) string {
	if n == 1 {
		return "1 evaluation"
	}
	return fmt.Sprintf("%d evaluations", n)
}
