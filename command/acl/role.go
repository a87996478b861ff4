package acl

import (
	"context"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

var roles = kind[api.ACLRole, api.ACLRole]{
	name: "ACL role", plural: "ACL roles", arg: "<acl role id>",
	of:      func(s *session.Session) rest.Objects[api.ACLRole, api.ACLRole] { return s.ACLRoles() },
	heading: []string{"ID", "Name", "Description", "Policies"},
	row: func(r *api.ACLRole) []string {
		return []string{r.ID, r.Name, view.OrNone(r.Description), policyNames(r)}
	},
	show: func(s *session.Session, r *api.ACLRole) {
		s.Print(view.Pairs([2]string{"ID", r.ID}, [2]string{"Name", r.Name}, [2]string{"Description", r.Description},
			[2]string{"Policies", policyNames(r)}, [2]string{"Create Index", index(r.CreateIndex)}, [2]string{"Modify Index", index(r.ModifyIndex)}))
	},
	deleted: "ACL role %s successfully deleted",
}

func policyNames(r *api.ACLRole) string {
	var names []string
	for _, p := range r.Policies {
		names = append(names, view.Inline(p.Name))
	}
	return strings.Join(names, ",")
}

func roleInfo(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show an ACL role", Args: "<acl role id>", Min: 1, Max: 1, Format: true,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "by-name", Usage: "the argument is the name of the role"}},
		Run: func(ctx context.Context, s *session.Session) error {
			find := s.ACLRoles().Get
			if s.Bool("by-name") {
				find = s.ACLRoleByName
			}
			r, err := find(ctx, s.Arg(0))
			return roles.print(s, r, "reading", err)
		},
	}.Command()
}

func roleFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "name", Usage: "unique `name` of the role"},
		&cli.StringFlag{Name: "description", Usage: "description `text`"},
		&cli.StringSliceFlag{Name: "policy", Usage: "`name` of a policy; may be repeated"},
	}
}

func setRole(s *session.Session, r *api.ACLRole) {
	if s.IsSet("name") {
		r.Name = s.String("name")
	}
	if s.IsSet("description") {
		r.Description = s.String("description")
	}
	if s.IsSet("policy") {
		r.Policies = nil
		for _, p := range s.Strings("policy") {
			r.Policies = append(r.Policies, &api.ACLRolePolicyLink{Name: p})
		}
	}
}

func roleCreate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "create an ACL role", Format: true, Flags: roleFlags(),
		Run: func(ctx context.Context, s *session.Session) error {
			if err := required(s, "name", "policy"); err != nil {
				return err
			}
			r := &api.ACLRole{}
			setRole(s, r)
			made, err := s.ACLRoles().Write(ctx, "", r)
			return roles.print(s, made, "creating", err)
		},
	}.Command()
}

func roleUpdate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "change an ACL role", Args: "<acl role id>", Min: 1, Max: 1, Format: true,
		Description: "What no flag names stays as it is. Policies replace those of the role.",
		Flags:       append(roleFlags(), &cli.BoolFlag{Name: "no-merge", Usage: "clear what no flag names"}),
		Run: func(ctx context.Context, s *session.Session) error {
			r, err := s.ACLRoles().Get(ctx, s.Arg(0))
			if err != nil {
				return roles.print(s, nil, "reading", err)
			}
			if s.Bool("no-merge") {
				if err := required(s, "name", "policy"); err != nil {
					return err
				}
				r = &api.ACLRole{ID: r.ID}
			}
			setRole(s, r)
			made, err := s.ACLRoles().Write(ctx, s.Arg(0), r)
			return roles.print(s, made, "updating", err)
		},
	}.Command()
}
