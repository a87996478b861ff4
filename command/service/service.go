// Package service has the verbs of "nomad service".
package service

import (
	"context"
	"net"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Group is "nomad service".
func Group() *cli.Command {
	return session.Group("service", "show the services that jobs offer", List("list"), Info("info"), Delete("delete"))
}

// List is "nomad service list".
func List(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list services with their tags", Format: true,
		Flags: []cli.Flag{&cli.StringFlag{Name: "name", Usage: "show the service of this `name` only"}},
		Run: func(ctx context.Context, s *session.Session) error {
			found, err := s.Services(ctx, rest.Query{})
			if err != nil {
				return session.Failed("listing services", err)
			}
			if name := s.String("name"); name != "" {
				found = named(found, name)
			}
			if s.Formatted() {
				return s.Document(found)
			}
			if len(found) == 0 {
				s.Println("No service registrations found")
				return nil
			}
			all := s.String("namespace") == api.AllNamespaces || len(found) > 1
			head := []string{"Service Name", "Tags"}
			if all {
				head = []string{"Service Name", "Namespace", "Tags"}
			}
			lines := [][]string{head}
			for _, ns := range found {
				for _, one := range ns.Services {
					line := []string{one.ServiceName, tags(one.Tags)}
					if all {
						line = []string{one.ServiceName, ns.Namespace, tags(one.Tags)}
					}
					lines = append(lines, line)
				}
			}
			s.Print(view.Table(lines...))
			return nil
		},
	}.Command()
}

// named returns the service of a name in each namespace that has it.
func named(found []*api.ServiceNamespace, name string) []*api.ServiceNamespace {
	out := []*api.ServiceNamespace{}
	for _, ns := range found {
		for _, one := range ns.Services {
			if one.ServiceName == name {
				out = append(out, &api.ServiceNamespace{Namespace: ns.Namespace, Services: []*api.ServiceStub{one}})
			}
		}
	}
	return out
}

func tags(list []string) string { return "[" + strings.Join(list, ",") + "]" }

// Info is "nomad service info".
func Info(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list the instances of a service", Args: "<service_name>", Min: 1, Max: 1, Format: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "verbose", Usage: "show whole ids, nodes and datacenters"},
			&cli.StringFlag{Name: "filter", Usage: "show instances for which the `expression` is true"},
			&cli.IntFlag{Name: "per-page", Usage: "number of `rows` per page"},
			&cli.StringFlag{Name: "page-token", Usage: "start at the page with this `token`"},
		},
		Run: info,
	}.Command()
}

func info(ctx context.Context, s *session.Session) error {
	q := rest.Query{Filter: s.String("filter"), PerPage: s.Int("per-page"), NextToken: s.String("page-token")}
	found, meta, err := s.Service(ctx, s.Arg(0), q)
	if err != nil {
		return session.Failed("reading service", err)
	}
	if s.Formatted() {
		return s.Document(found)
	}
	if len(found) == 0 {
		s.Printf("No service registrations found for service %q\n", s.Arg(0))
		return nil
	}
	if s.Bool("verbose") {
		for i, r := range found {
			if i > 0 {
				s.Println("")
			}
			s.Print(view.Pairs(
				[2]string{"ID", r.ID}, [2]string{"Service Name", r.ServiceName}, [2]string{"Namespace", r.Namespace}, [2]string{"Job ID", r.JobID},
				[2]string{"Alloc ID", r.AllocID}, [2]string{"Node ID", r.NodeID}, [2]string{"Datacenter", r.Datacenter},
				[2]string{"Address", address(r)}, [2]string{"Tags", tags(r.Tags)},
			))
		}
	} else {
		lines := [][]string{{"Job ID", "Address", "Tags", "Node ID", "Alloc ID"}}
		for _, r := range found {
			lines = append(lines, []string{r.JobID, address(r), tags(r.Tags), view.ID(r.NodeID, false), view.ID(r.AllocID, false)})
		}
		s.Print(view.Table(lines...))
	}
	if meta.NextToken != "" {
		s.Printf("\nMore results: nomad service info -page-token %s %s\n", meta.NextToken, s.Arg(0))
	}
	return nil
}

// address is where an instance is reached. One without a port is an address alone.
func address(r *api.ServiceRegistration) string {
	if r.Port == 0 {
		return r.Address
	}
	return net.JoinHostPort(r.Address, strconv.Itoa(r.Port))
}

// Delete is "nomad service delete".
func Delete(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "delete one instance of a service; the next change of its allocation makes it again", Args: "<service_name> <service_id>", Min: 2, Max: 2,
		Run: func(ctx context.Context, s *session.Session) error {
			if err := s.DeleteService(ctx, s.Arg(0), s.Arg(1)); err != nil {
				return session.Failed("deleting service registration", err)
			}
			s.Println("Successfully deleted service registration")
			return nil
		},
	}.Command()
}
