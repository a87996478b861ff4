package status

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/alloc"
	"github.com/open-nomad/open-nomad/command/deployment"
	"github.com/open-nomad/open-nomad/command/eval"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/job"
	"github.com/open-nomad/open-nomad/command/node"
	"github.com/open-nomad/open-nomad/command/plugin"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
	"github.com/open-nomad/open-nomad/command/volume"
)

// Any is "nomad status".
func Any(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list jobs, or show the object whose ID has this prefix", Args: "[<id>]", Max: 1, Format: true,
		Flags: []cli.Flag{
			session.Verbose(), session.PageFlag(),
			&cli.BoolFlag{Name: "short", Usage: "show basic information only"},
			&cli.BoolFlag{Name: "evals", Usage: "for a job: show evaluations"},
			&cli.BoolFlag{Name: "all-allocs", Usage: "for a job: include allocations of earlier jobs with this ID"},
		},
		Run: anything,
	}.Command()
}

// kinds are what an id may name, in the order in which an exact id is looked for.
var kinds = []struct {
	name string
	show func(context.Context, *session.Session) error
}{
	{"jobs", find.ListOr(job.List, find.Job, job.Show)},
	{"allocs", find.ListOr(job.List, find.Alloc, alloc.Show)},
	{"nodes", find.ListOr(job.List, find.Node, func(ctx context.Context, s *session.Session, n *api.NodeStub) error {
		return node.Show(ctx, s, n.ID)
	})},
	{"evals", find.ListOr(job.List, find.Eval, eval.Show)},
	{"deployment", find.ListOr(job.List, find.Deployment, deployment.Show)},
	{"volumes", find.ListOr(job.List, find.Volume, func(ctx context.Context, s *session.Session, v *api.VolumeStub) error {
		s.Client = s.In(v.Namespace)
		return volume.Show(ctx, s, v.ID)
	})},
	{"plugins", find.ListOr(job.List, find.Plugin, func(ctx context.Context, s *session.Session, p *api.PluginStub) error {
		return plugin.Show(ctx, s, p.ID)
	})},
}

func anything(ctx context.Context, s *session.Session) error {
	if len(s.Args) == 0 {
		return job.List(ctx, s)
	}
	matches, err := s.Search(ctx, s.Arg(0), "all", rest.Query{})
	if err != nil {
		return session.Failed("querying search", err)
	}
	show, err := choose(s.Arg(0), matches)
	if err != nil {
		return err
	}
	return show(ctx, s)
}

// choose picks the kind that has the id exactly, or else the only kind with matches.
func choose(id string, matches map[string][]string) (func(context.Context, *session.Session) error, error) {
	var b strings.Builder
	var found []func(context.Context, *session.Session) error
	for _, k := range kinds {
		ids := matches[k.name]
		if slices.Contains(ids, id) {
			return k.show, nil
		}
		if len(ids) > 0 {
			found = append(found, k.show)
			b.WriteString("\n\n" + strings.ToUpper(k.name[:1]) + k.name[1:] + "\n" + view.Inline(strings.Join(ids, ", ")))
		}
	}
	switch len(found) {
	case 0:
		return nil, fault.New(fault.NotFound, "No matches found for id %q", id)
	case 1:
		return found[0], nil
	}
	return nil, fault.New(fault.Invalid, "Multiple matches found for id %q%s", id, b.String())
}
