package deployment

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
)

// Group is "nomad deployment".
func Group() *cli.Command {
	return session.Group("deployment", "list and control deployments",
		List("list"), Status("status"), Promote("promote"), Fail("fail"), Pause("pause"), Resume("resume"), Unblock("unblock"))
}

// List is "nomad deployment list".
func List(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list deployments", Format: true,
		Flags: []cli.Flag{session.Verbose(), &cli.StringFlag{Name: "filter", Usage: "use only those that match the filter `expression`"}},
		Run:   list,
	}.Command()
}

func list(ctx context.Context, s *session.Session) error {
	found, _, err := s.Deployments(ctx, rest.Query{Filter: s.String("filter")})
	if err != nil {
		return session.Failed("retrieving deployments", err)
	}
	if s.Formatted() {
		return s.Document(found)
	}
	slices.SortStableFunc(found, func(a, b *api.Deployment) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	s.Print(rows.Deployments(found, s.Verbose))
	return nil
}

// Status is "nomad deployment status".
func Status(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list deployments, or show one", Args: "[<deployment>]", Max: 1, Format: true,
		Flags: []cli.Flag{
			session.Verbose(), session.PageFlag(),
			&cli.BoolFlag{Name: "monitor", Usage: "monitor the deployment until it ends; exit 1 if it fails"},
			&cli.StringFlag{Name: "wait", Value: "2s", Usage: "with -monitor: `interval` between two checks"},
		},
		Run: find.ListOr(list, find.Deployment, Show),
	}.Command()
}

// Show prints one deployment, or follows it.
func Show(ctx context.Context, s *session.Session, found *api.Deployment) error {
	s.Client = s.In(found.Namespace)
	if s.Formatted() {
		if s.Bool("monitor") {
			return fault.New(fault.Invalid, "-monitor cannot be used with -json or -t")
		}
		d, _, err := s.Deployment(ctx, found.ID, rest.Query{})
		if err != nil {
			return session.Failed("retrieving deployment", err)
		}
		return s.Document(d)
	}
	if s.Bool("monitor") {
		wait, err := time.ParseDuration(s.String("wait"))
		if err != nil || wait <= 0 {
			return fault.New(fault.Invalid, "-wait %q is not a positive duration such as 2s", s.String("wait"))
		}
		return monitor.DeploymentEvery(ctx, s, found.ID, wait)
	}
	d, _, err := s.Deployment(ctx, found.ID, rest.Query{})
	if err != nil {
		return session.Failed("retrieving deployment", err)
	}
	s.Print(rows.Deployment(d, s.Verbose))
	if s.Verbose {
		allocs, _, err := s.DeploymentAllocations(ctx, d.ID, rest.Query{})
		if err != nil {
			return session.Failed("retrieving allocations", err)
		}
		s.Titled("Allocations", rows.Allocs(allocs, true, time.Now()))
	}
	return s.Page(ctx, "deployment", "deployments", d.ID)
}
