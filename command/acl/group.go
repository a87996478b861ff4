// Package acl has the verbs of "nomad acl".
package acl

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Group is "nomad acl".
func Group() *cli.Command {
	return session.Group("acl", "manage access control: tokens, policies, roles and logins",
		bootstrap("bootstrap"), explain("explain"),
		session.Group("policy", "manage ACL policies",
			policies.list(), policies.info(), policies.remove(), policyApply("apply"), policySelf("self")),
		session.Group("token", "manage ACL tokens",
			tokens.list(), tokens.info(), tokens.remove(), tokenCreate("create"), tokenUpdate("update"), tokenSelf("self")),
		session.Group("role", "manage ACL roles, which are sets of policies",
			roles.list(), roleInfo("info"), roles.remove(), roleCreate("create"), roleUpdate("update")),
		session.Group("auth-method", "manage ACL auth methods, which are ways to log in",
			methods.list(), methods.info(), methods.remove(), methodCreate("create"), methodUpdate("update")),
		session.Group("binding-rule", "manage ACL binding rules, which give logins policies and roles",
			rules.list(), rules.info(), rules.remove(), ruleCreate("create"), ruleUpdate("update")))
}

// kind describes one kind of objects and makes the verbs that all kinds have. T is an object, S is what lists have of it.
type kind[T, S any] struct {
	// name is the singular, as "ACL role"; plural is its plural.
	name, plural string
	// arg names the identifier in the help; usage is for messages.
	arg     string
	of      func(*session.Session) rest.Objects[T, S]
	heading []string
	row     func(*S) []string
	show    func(*session.Session, *T)
	// deleted is the format of the message after a deletion.
	deleted string
}

func (k kind[T, S]) list() *cli.Command {
	return session.Verb{
		Name: "list", Usage: "list " + k.plural, Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			found, err := k.of(s).List(ctx, rest.Query{})
			if err != nil {
				return session.Failed("listing "+k.plural, err)
			}
			if s.Formatted() {
				return s.Document(found)
			}
			if len(found) == 0 {
				s.Printf("No %s found\n", k.plural)
				return nil
			}
			table := [][]string{k.heading}
			for _, o := range found {
				table = append(table, k.row(o))
			}
			s.Print(view.Table(table...))
			return nil
		},
	}.Command()
}

func (k kind[T, S]) info() *cli.Command {
	return session.Verb{
		Name: "info", Usage: "show an " + k.name, Args: k.arg, Min: 1, Max: 1, Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			found, err := k.of(s).Get(ctx, s.Arg(0))
			return k.print(s, found, "reading", err)
		},
	}.Command()
}

func (k kind[T, S]) remove() *cli.Command {
	return session.Verb{
		Name: "delete", Usage: "delete an " + k.name, Args: k.arg, Min: 1, Max: 1,
		Run: func(ctx context.Context, s *session.Session) error {
			if err := k.of(s).Delete(ctx, s.Arg(0)); err != nil {
				return session.Failed("deleting "+k.name, err)
			}
			s.Printf(k.deleted+"\n", s.Arg(0))
			return nil
		},
	}.Command()
}

// print prints an object, or the error of the operation that should have returned it.
func (k kind[T, S]) print(s *session.Session, o *T, doing string, err error) error {
	if err != nil {
		return session.Failed(doing+" "+k.name, err)
	}
	if s.Formatted() {
		return s.Document(o)
	}
	k.show(s, o)
	return nil
}
