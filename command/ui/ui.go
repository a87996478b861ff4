package ui

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Open is "nomad ui".
func Open(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "open the web user interface in a browser", Args: "[<id>]", Max: 1,
		Description: "With an ID, or the beginning of one, the page of that job, allocation, node, evaluation, deployment, volume or plugin.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "authenticate", Usage: "sign in with the token of the command, through a token that can be used once"},
			&cli.BoolFlag{Name: "show-url", Usage: "print the address instead of opening it"},
		},
		Run: run,
	}.Command()
}

func run(ctx context.Context, s *session.Session) error {
	var parts []string
	if id := s.Arg(0); id != "" {
		var err error
		if parts, err = pageOf(ctx, s, id); err != nil {
			return err
		}
	}
	address, err := s.PageURL(parts...)
	if err != nil {
		return err
	}
	secret := ""
	if s.Bool("authenticate") {
		once, err := s.ACLOneTimeToken(ctx)
		if err != nil {
			return session.Failed("creating a one-time token", err)
		}
		secret = "?ott=" + url.QueryEscape(once.OneTimeSecretID)
	}
	if s.Bool("show-url") {
		s.Printf("URL for web UI: %s\n", address+secret)
		return nil
	}
	s.Printf("Opening URL %q\n", address)
	return session.Browse(ctx, address+secret)
}

// kinds are what an id may name, with its page, in the order in which an exact id is looked for.
var kinds = []struct {
	name string
	page func(context.Context, *session.Session, string) ([]string, error)
}{
	{"jobs", page(find.Job, func(j *api.JobStub) []string { return []string{"jobs", j.ID + "@" + j.Namespace} })},
	{"allocs", page(find.Alloc, func(a *api.AllocStub) []string { return []string{"allocations", a.ID} })},
	{"nodes", page(find.Node, func(n *api.NodeStub) []string { return []string{"clients", n.ID} })},
	{"evals", page(find.Eval, func(e *api.Evaluation) []string { return []string{"evaluations", e.ID} })},
	{"deployment", page(find.Deployment, func(d *api.Deployment) []string { return []string{"deployments", d.ID} })},
	{"volumes", page(find.Volume, func(v *api.VolumeStub) []string {
		return []string{"storage", "volumes", "csi", v.ID + "@" + v.Namespace}
	})},
	{"plugins", page(find.Plugin, func(p *api.PluginStub) []string { return []string{"storage", "plugins", p.ID} })},
}

func page[T any](of func(context.Context, *session.Session, string) (*T, error), parts func(*T) []string) func(context.Context, *session.Session, string) ([]string, error) {
	return func(ctx context.Context, s *session.Session, id string) ([]string, error) {
		found, err := of(ctx, s, id)
		if err != nil {
			return nil, err
		}
		return parts(found), nil
	}
}

// pageOf is the path of the page of the object whose id begins with the given one.
func pageOf(ctx context.Context, s *session.Session, id string) ([]string, error) {
	matches, err := s.Search(ctx, id, "all", rest.Query{})
	if err != nil {
		return nil, session.Failed("querying search", err)
	}
	var found []int
	var b strings.Builder
	for i, k := range kinds {
		if slices.Contains(matches[k.name], id) {
			return k.page(ctx, s, id)
		}
		if len(matches[k.name]) > 0 {
			found = append(found, i)
			b.WriteString("\n" + k.name + ": " + view.Inline(strings.Join(matches[k.name], ", ")))
		}
	}
	switch len(found) {
	case 0:
		return nil, fault.New(fault.NotFound, "No matches found for id %q", id)
	case 1:
		return kinds[found[0]].page(ctx, s, id)
	}
	return nil, fault.New(fault.Invalid, "Multiple matches found for id %q%s", id, b.String())
}
