package namespace

import (
	"context"
	"errors"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/specfile"
)

// Apply is "nomad namespace apply".
func Apply(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "create or update a namespace", Args: "<namespace, or file, or - for stdin>", Min: 1, Max: 1,
		Description: "A name changes what the flags name. A file describes the whole namespace; flags win over it:\n\n" + example,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "description", Usage: "description `text`"},
			&cli.StringFlag{Name: "quota", Usage: "`name` of the quota that limits the namespace; empty for none"},
			&cli.BoolFlag{Name: "json", Usage: "the argument is a file in JSON with the names of the API"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			n, err := described(ctx, s)
			if err != nil {
				return err
			}
			if s.IsSet("description") {
				n.Description = s.String("description")
			}
			if s.IsSet("quota") {
				n.Quota = s.String("quota")
			}
			if err := s.PutNamespace(ctx, n); err != nil {
				return session.Failed("applying namespace", err)
			}
			s.Printf("Successfully applied namespace %q!\n", n.Name)
			return nil
		},
	}.Command()
}

const example = `  name        = "dev"
  description = "development"
  quota       = "small"
  meta {
    owner = "platform"
  }
  capabilities {
    enabled_task_drivers  = ["exec"]
    disabled_task_drivers = ["raw_exec"]
  }
  node_pool_config {
    default = "dev"
    allowed = ["dev", "default"]
  }`

// described is the namespace of a file, or the stored or a new one of a name.
func described(ctx context.Context, s *session.Session) (*api.Namespace, error) {
	arg := s.Arg(0)
	if info, err := os.Stat(arg); arg == "-" || s.Bool("json") || err == nil && !info.IsDir() {
		n := &api.Namespace{}
		if err := specfile.Read(s, arg, s.Bool("json"), n); err != nil {
			return nil, session.Failed("reading namespace file", err)
		}
		if n.Name == "" {
			return nil, fault.New(fault.Invalid, "namespace file %s has no name: write name = \"...\" there", arg)
		}
		return n, nil
	}
	n, err := s.NamespaceInfo(ctx, arg)
	if errors.Is(err, fault.NotFound) {
		return &api.Namespace{Name: arg}, nil
	}
	if err != nil {
		return nil, session.Failed("reading namespace", err)
	}
	return n, nil
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
