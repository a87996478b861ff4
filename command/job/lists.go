package job

import (
	"context"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
)

// Allocs is "nomad job allocs".
func Allocs(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list the allocations of a job", Args: "<job>", Min: 1, Max: 1, Format: true,
		Flags: []cli.Flag{session.Verbose(), &cli.BoolFlag{Name: "all", Usage: "include those of earlier jobs with this ID"}},
		Run: ofJob(func(ctx context.Context, s *session.Session, j *api.JobStub) error {
			allocs, _, err := s.JobAllocations(ctx, j.ID, s.Bool("all"), rest.Query{})
			if err != nil {
				return session.Failed("retrieving allocations", err)
			}
			if s.Formatted() {
				return s.Document(allocs)
			}
			s.Print(rows.Allocs(allocs, s.Verbose, time.Now()))
			return nil
		}),
	}.Command()
}

// Evaluate is "nomad job eval".
func Evaluate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "evaluate a job again", Args: "<job>", Min: 1, Max: 1,
		Flags: []cli.Flag{
			session.Verbose(), session.Detach(),
			&cli.BoolFlag{Name: "force-reschedule", Usage: "reschedule failed allocations immediately"},
		},
		Run: ofJob(func(ctx context.Context, s *session.Session, j *api.JobStub) error {
			out, err := s.EvaluateJob(ctx, j.ID, api.EvalOptions{ForceReschedule: s.Bool("force-reschedule")})
			if err != nil {
				return session.Failed("evaluating job", err)
			}
			if s.Bool("detach") {
				s.Println("Created eval ID:", s.ID(out.EvalID))
				return nil
			}
			return monitor.Eval(ctx, s, out.EvalID)
		}),
	}.Command()
}

// Deployments is "nomad job deployments".
func Deployments(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list the deployments of a job", Args: "<job>", Min: 1, Max: 1, Format: true,
		Flags: []cli.Flag{
			session.Verbose(),
			&cli.BoolFlag{Name: "latest", Usage: "show only the latest deployment"},
			&cli.BoolFlag{Name: "all", Usage: "include those of earlier jobs with this ID"},
		},
		Run: ofJob(deployments),
	}.Command()
}

func deployments(ctx context.Context, s *session.Session, j *api.JobStub) error {
	found, _, err := s.JobDeployments(ctx, j.ID, rest.Query{})
	if err != nil {
		return session.Failed("retrieving deployments", err)
	}
	if s.Bool("latest") && len(found) > 1 {
		latest := found[0]
		for _, d := range found {
			if d.CreateIndex > latest.CreateIndex {
				latest = d
			}
		}
		found = []*api.Deployment{latest}
	}
	if s.Formatted() {
		return s.Document(found)
	}
	if len(found) == 0 {
		s.Println("No deployments found")
	}
	for i, d := range found {
		if i > 0 {
			s.Println()
		}
		s.Print(rows.Deployment(d, s.Verbose))
	}
	return nil
}
