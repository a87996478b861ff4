package job

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// look bounds how long one blocking read waits.
const look = 2 * time.Second

// Dispatch is "nomad job dispatch".
func Dispatch(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "run an instance of a parameterized job", Args: "<job> [<payload file>]", Min: 1, Max: 2,
		Flags: []cli.Flag{
			session.Verbose(), session.Detach(), session.PageFlag(),
			&cli.StringSliceFlag{Name: "meta", Usage: "`key=value` for the instance; may be repeated"},
			&cli.StringFlag{Name: "idempotency-token", Usage: "dispatch at most one instance with this `token`"},
			&cli.StringFlag{Name: "id-prefix-template", Usage: "`text` to include in the ID of the instance"},
			&cli.IntFlag{Name: "priority", Usage: "`priority` of the instance instead of the job's"},
			&cli.BoolFlag{Name: "wait", Usage: "wait until the instance has ended; exits 1 when it failed"},
		},
		Run: dispatch,
	}.Command()
}

func dispatch(ctx context.Context, s *session.Session) error {
	if s.Bool("detach") && s.Bool("wait") {
		return fault.New(fault.Invalid, "-detach and -wait cannot be combined")
	}
	meta, err := s.KeyValues("meta")
	if err != nil {
		return err
	}
	req := &api.JobDispatchRequest{
		Meta: meta, IDPrefixTemplate: s.String("id-prefix-template"), Priority: s.Int("priority"),
		IdempotencyToken: s.String("idempotency-token"),
	}
	if path := s.Arg(1); path != "" {
		if _, req.Payload, err = s.Source(path); err != nil {
			return session.Failed("reading input data", err)
		}
	}
	j, err := find.Job(ctx, s, s.Arg(0))
	if err != nil {
		return err
	}
	s.Client = s.In(j.Namespace)
	out, err := s.DispatchJob(ctx, j.ID, req)
	if err != nil {
		return session.Failed("dispatching job", err)
	}
	pairs := [][2]string{{"Dispatched Job ID", out.DispatchedJobID}}
	if out.EvalID != "" {
		pairs = append(pairs, [2]string{"Evaluation ID", s.ID(out.EvalID)})
	}
	s.Print(view.Pairs(pairs...))
	page := func() error { return s.Page(ctx, "job", "jobs", out.DispatchedJobID+"@"+j.Namespace) }
	if s.Bool("detach") {
		return page()
	}
	if out.EvalID != "" {
		s.Println()
		if err := monitor.Eval(ctx, s, out.EvalID); err != nil {
			return err
		}
	}
	if s.Bool("wait") {
		if err := waitForEnd(ctx, s, out.DispatchedJobID); err != nil {
			return err
		}
	}
	return page()
}

// waitForEnd waits until an instance is dead, and fails when one of its allocations did.
func waitForEnd(ctx context.Context, s *session.Session, id string) error {
	s.Printf("==> %s: Waiting for job %q to end\n", view.Time(time.Now()), id)
	live := s.Live("Job " + id)
	defer live.End()
	var index uint64
	for {
		j, meta, err := s.Job(ctx, id, rest.Query{Index: index, Wait: look})
		if err != nil {
			return session.Failed("querying job", err)
		}
		if index = meta.Index; j.Status == api.JobStatusDead {
			break
		}
	}
	live.End()
	sum, _, err := s.JobSummary(ctx, id, rest.Query{})
	if err != nil {
		return session.Failed("querying job summary", err)
	}
	complete, failed := 0, 0
	for _, g := range sum.Summary {
		complete += g.Complete
		failed += g.Failed + g.Lost
	}
	s.Printf("==> %s: Job %q has ended: %d complete, %d failed\n", view.Time(time.Now()), id, complete, failed)
	if failed > 0 {
		return &session.Exit{Code: 1, Text: fmt.Sprintf("%d allocations of job %q failed", failed, id)}
	}
	return nil
}

// Periodic is "nomad job periodic".
func Periodic(name string) *cli.Command {
	return session.Group(name, "act on periodic jobs", PeriodicForce("force"))
}

// PeriodicForce is "nomad job periodic force".
func PeriodicForce(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "launch a periodic job immediately", Args: "<job>", Min: 1, Max: 1,
		Flags: []cli.Flag{session.Verbose(), session.Detach()},
		Run: ofJob(func(ctx context.Context, s *session.Session, j *api.JobStub) error {
			out, err := s.ForcePeriodicJob(ctx, j.ID)
			if err != nil {
				return session.Failed("forcing periodic job "+j.ID, err)
			}
			return follow(ctx, s, "Force periodic successful", out.EvalID)
		}),
	}.Command()
}
