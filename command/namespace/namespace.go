package namespace

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/rows"
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
			s.Print(find.NamespaceTable(found))
			return nil
		},
	}.Command()
}

// Status is "nomad namespace status".
func Status(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show a namespace", Args: "<namespace>", Min: 1, Max: 1, Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			n, err := find.Namespace(ctx, s, s.Arg(0))
			if err != nil {
				return err
			}
			if s.Formatted() {
				return s.Document(n)
			}
			show(s, n)
			return showQuota(ctx, s, n.Quota)
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
	if len(n.Meta) > 0 {
		s.Titled("Metadata", pairs(n.Meta))
	}
	for _, claims := range []struct {
		title     string
		templates map[string]string
	}{{"Required Extra Claims", n.RequiredExtraClaims}, {"Optional Extra Claims", n.OptionalExtraClaims}} {
		if len(claims.templates) > 0 {
			s.Titled(claims.title, pairs(claims.templates))
		}
	}
	if p := n.NodePoolConfiguration; p != nil {
		s.Titled("Node Pool Configuration", allowed(p.Default, p.Allowed, p.Denied))
	}
	if v := n.VaultConfiguration; v != nil {
		s.Titled("Vault Configuration", allowed(v.Default, v.Allowed, v.Denied))
	}
	if c := n.ConsulConfiguration; c != nil {
		s.Titled("Consul Configuration", allowed(c.Default, c.Allowed, c.Denied))
	}
}

// pairs shows a map, sorted by its keys.
func pairs(m map[string]string) string {
	var all [][2]string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, [2]string{k, m[k]})
	}
	return view.Pairs(all...)
}

// allowed shows a default and what is allowed and denied; a configuration has one of the two lists.
func allowed(name string, allow, deny []string) string {
	pairs := [][2]string{{"Default", name}}
	if len(deny) > 0 {
		pairs = append(pairs, [2]string{"Denied", strings.Join(deny, ",")})
	} else {
		pairs = append(pairs, [2]string{"Allowed", all(allow)})
	}
	return view.Pairs(pairs...)
}

// showQuota shows the limits of a namespace's quota and what is used of them.
func showQuota(ctx context.Context, s *session.Session, name string) error {
	if name == "" {
		return nil
	}
	q, err := s.Quotas().Get(ctx, name)
	if err != nil {
		return session.Failed("reading quota", err)
	}
	u, err := s.QuotaUsage(ctx, name)
	if err != nil && !errors.Is(err, fault.NotFound) {
		return session.Failed("reading quota usage", err)
	}
	s.Print(rows.QuotaUsage(q, u))
	return nil
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
			n, err := find.Namespace(ctx, s, s.Arg(0))
			if err != nil {
				return err
			}
			return s.Document(n)
		},
	}.Command()
}
