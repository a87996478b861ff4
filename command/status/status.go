package status

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

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
		Name: name, Usage: "list jobs, or show whatever has an id that begins like this", Args: "[<id>]", Max: 1, Format: true,
		Flags: []cli.Flag{
			session.Verbose(),
			&cli.BoolFlag{Name: "short", Usage: "basic facts only"},
			&cli.BoolFlag{Name: "evals", Usage: "of a job: show evaluations"},
			&cli.BoolFlag{Name: "all-allocs", Usage: "of a job: show allocations of earlier incarnations too"},
		},
		Run: anything,
	}.Command()
}

// order is the order in which kinds are shown when an exact id has several.
var order = []string{"jobs", "allocs", "nodes", "evals", "deployment", "volumes", "plugins"}

func anything(ctx context.Context, s *session.Session) error {
	if len(s.Args) == 0 {
		return job.List(ctx, s)
	}
	id := s.Arg(0)
	matches, err := s.Search(ctx, id, "all", rest.Query{})
	if err != nil {
		return session.Failed("querying search", err)
	}
	kind, err := choose(id, matches)
	if err != nil {
		return err
	}
	switch kind {
	case "jobs":
		j, err := find.Job(ctx, s, id)
		if err != nil {
			return err
		}
		return job.Show(ctx, s, j)
	case "allocs":
		a, err := find.Alloc(ctx, s, id)
		if err != nil {
			return err
		}
		return alloc.Show(ctx, s, a)
	case "nodes":
		n, err := find.Node(ctx, s, id)
		if err != nil {
			return err
		}
		return node.Show(ctx, s, n.ID)
	case "evals":
		e, err := find.Eval(ctx, s, id)
		if err != nil {
			return err
		}
		return eval.Show(ctx, s, e)
	case "volumes":
		v, err := find.Volume(ctx, s, id)
		if err != nil {
			return err
		}
		s.Client = s.In(v.Namespace)
		return volume.Show(ctx, s, v.ID)
	case "plugins":
		p, err := find.Plugin(ctx, s, id)
		if err != nil {
			return err
		}
		return plugin.Show(ctx, s, p.ID)
	}
	d, err := find.Deployment(ctx, s, id)
	if err != nil {
		return err
	}
	return deployment.Show(ctx, s, d)
}

// choose picks the kind that an id belongs to: one that has it exactly, else the only one with matches.
func choose(id string, matches map[string][]string) (string, error) {
	var kinds []string
	for _, k := range order {
		if slices.Contains(matches[k], id) {
			return k, nil
		}
		if len(matches[k]) > 0 {
			kinds = append(kinds, k)
		}
	}
	switch len(kinds) {
	case 0:
		return "", fault.New(fault.NotFound, "No matches found for id %q", id)
	case 1:
		return kinds[0], nil
	}
	var b strings.Builder
	for _, k := range kinds {
		b.WriteString("\n\n" + strings.ToUpper(k[:1]) + k[1:] + "\n" + view.Inline(strings.Join(matches[k], ", ")))
	}
	return "", fault.New(fault.Invalid, "Multiple matches found for id %q%s", id, b.String())
}
