package namespace

import (
	"context"
	"errors"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
)

// Apply is "nomad namespace apply".
func Apply(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "create or update a namespace", Args: "<namespace>", Min: 1, Max: 1,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "description", Usage: "description `text`"},
			&cli.StringFlag{Name: "quota", Hidden: true},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			name := s.Arg(0)
			n, err := s.NamespaceInfo(ctx, name)
			switch {
			case errors.Is(err, fault.NotFound):
				n = &api.Namespace{Name: name}
			case err != nil:
				return session.Failed("reading namespace", err)
			}
			if s.IsSet("description") {
				n.Description = s.String("description")
			}
			if err := s.PutNamespace(ctx, n); err != nil {
				return session.Failed("applying namespace", err)
			}
			s.Printf("Successfully applied namespace %q!\n", name)
			return nil
		},
	}.Command()
}

// Delete is "nomad namespace delete".
func Delete(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "delete an empty namespace", Args: "<namespace>", Min: 1, Max: 1,
		Run: func(ctx context.Context, s *session.Session) error {
			name := s.Arg(0)
			if name == api.DefaultNamespace {
				return fault.New(fault.Invalid, "the namespace %q cannot be deleted", name)
			}
			if err := s.DeleteNamespace(ctx, name); err != nil {
				return session.Failed("deleting namespace", err)
			}
			s.Printf("Successfully deleted namespace %q!\n", name)
			return nil
		},
	}.Command()
}
