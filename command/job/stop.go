package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/session"
)

// Stop is "nomad job stop".
func Stop(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "stop jobs", Args: "<job>...", Min: 1, Max: -1,
		Flags: []cli.Flag{
			session.Verbose(), session.Detach(),
			&cli.BoolFlag{Name: "purge", Usage: "delete the job instead of keeping it stopped"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask for confirmation"},
			&cli.BoolFlag{Name: "global", Usage: "stop the job in all regions"},
			&cli.BoolFlag{Name: "force", Usage: "stop the job even if volumes need its CSI plugin"},
			&cli.BoolFlag{Name: "no-shutdown-delay", Usage: "do not wait for shutdown delays"},
			&cli.IntFlag{Name: "eval-priority", Usage: "`priority` of the evaluation"},
		},
		Run: stop,
	}.Command()
}

func stop(ctx context.Context, s *session.Session) error {
	var errs []error
	for _, id := range s.Args {
		errs = append(errs, stopOne(ctx, s, id))
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

func stopOne(ctx context.Context, s *session.Session, typed string) error {
	j, err := find.Job(ctx, s, typed)
	if err != nil {
		return err
	}
	if j.ID != typed && !s.Bool("yes") {
		ok, err := s.Confirm(fmt.Sprintf("Are you sure you want to stop job %q?", j.ID))
		if err != nil || !ok {
			s.Println("Cancelling job stop")
			return err
		}
	}
	at := *s
	at.Client = s.In(j.Namespace)
	out, err := at.StopJob(ctx, j.ID, rest.StopOptions{
		Purge: s.Bool("purge"), NoShutdownDelay: s.Bool("no-shutdown-delay"), Force: s.Bool("force"), EvalPriority: s.Int("eval-priority"),
	})
	if err != nil {
		return session.Failed("deregistering job", err)
	}
	if out.EvalID == "" {
		return nil
	}
	if s.Bool("detach") {
		s.Println(out.EvalID)
		return nil
	}
	return monitor.Eval(ctx, &at, out.EvalID)
}
