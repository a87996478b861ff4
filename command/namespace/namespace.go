package namespace

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Group is "nomad namespace".
func Group() *cli.Command {
	return session.Group("namespace", "make and look at namespaces",
		List("list"), Status("status"), Inspect("inspect"), Apply("apply"), Delete("delete"))
}

// List is "nomad namespace list".
func List(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list namespaces", Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			found, _, err := s.Namespaces(ctx, rest.Query{})
			if err != nil {
				return session.Failed("retrieving namespaces", err)
			}
			if s.Formatted() {
				return s.Document(found)
			}
			table := [][]string{{"Name", "Description"}}
			for _, n := range found {
				table = append(table, []string{n.Name, view.OrNone(n.Description)})
			}
			s.Print(view.Table(table...))
			return nil
		},
	}.Command()
}

// Status is "nomad namespace status".
func Status(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show a namespace", Args: "<namespace>", Min: 1, Max: 1, Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			n, err := s.NamespaceInfo(ctx, s.Arg(0))
			if err != nil {
				return session.Failed("reading namespace", err)
			}
			if s.Formatted() {
				return s.Document(n)
			}
			show(s, n)
			return nil
		},
	}.Command()
}

func show(s *session.Session, n *api.Namespace) {
	f := [][2]string{{"Name", n.Name}, {"Description", n.Description}, {"Quota", n.Quota}}
	if c := n.Capabilities; c != nil {
		f = append(f, [2]string{"Enabled Drivers", all(c.EnabledTaskDrivers)}, [2]string{"Disabled Drivers", strings.Join(c.DisabledTaskDrivers, ",")},
			[2]string{"Enabled Network Modes", all(c.EnabledNetworkModes)}, [2]string{"Disabled Network Modes", strings.Join(c.DisabledNetworkModes, ",")})
	}
	s.Print(view.Pairs(f...))
	if len(n.Meta) == 0 {
		return
	}
	var meta [][2]string
	for _, k := range slices.Sorted(maps.Keys(n.Meta)) {
		meta = append(meta, [2]string{k, n.Meta[k]})
	}
	s.Titled("Metadata", view.Pairs(meta...))
}

func all(list []string) string {
	if len(list) == 0 {
		return "*"
	}
	return strings.Join(list, ",")
}

// Inspect is "nomad namespace inspect".
func Inspect(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "print a namespace as it is stored", Args: "<namespace>", Min: 1, Max: 1, Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			n, err := s.NamespaceInfo(ctx, s.Arg(0))
			if err != nil {
				return session.Failed("reading namespace", err)
			}
			return s.Document(n)
		},
	}.Command()
}
