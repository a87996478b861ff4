package acl

import (
	"context"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

var rules = kind[api.ACLBindingRule, api.ACLBindingRuleListStub]{
	name: "ACL binding rule", plural: "ACL binding rules", arg: "<acl binding rule id>",
	of: func(s *session.Session) rest.Objects[api.ACLBindingRule, api.ACLBindingRuleListStub] {
		return s.ACLBindingRules()
	},
	heading: []string{"ID", "Description", "Auth Method"},
	row: func(r *api.ACLBindingRuleListStub) []string {
		return []string{r.ID, view.OrNone(r.Description), r.AuthMethod}
	},
	show: func(s *session.Session, r *api.ACLBindingRule) {
		selector := r.Selector
		if selector != "" {
			selector = strconv.Quote(selector)
		}
		s.Print(view.Pairs([2]string{"ID", r.ID}, [2]string{"Description", r.Description}, [2]string{"Auth Method", r.AuthMethod},
			[2]string{"Selector", selector}, [2]string{"Bind Type", r.BindType}, [2]string{"Bind Name", r.BindName},
			[2]string{"Create Time", r.CreateTime.UTC().String()}, [2]string{"Modify Time", r.ModifyTime.UTC().String()},
			[2]string{"Create Index", index(r.CreateIndex)}, [2]string{"Modify Index", index(r.ModifyIndex)}))
	},
	deleted: "ACL binding rule %s successfully deleted",
}

func ruleFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "description", Usage: "description `text`"},
		&cli.StringFlag{Name: "selector", Usage: "`expression` over the claims, such as \"engineers in list.groups\"; all logins by default"},
		&cli.StringFlag{Name: "bind-type", Usage: "`kind` of what a login gets: policy, role or management"},
		&cli.StringFlag{Name: "bind-name", Usage: "`name` of the policy or role; may have ${value.CLAIM}"},
	}
}

func setRule(s *session.Session, r *api.ACLBindingRule) {
	for flag, to := range map[string]*string{
		"description": &r.Description, "selector": &r.Selector, "bind-type": &r.BindType, "bind-name": &r.BindName,
	} {
		if s.IsSet(flag) {
			*to = s.String(flag)
		}
	}
}

func ruleCreate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "create an ACL binding rule", Format: true,
		Flags: append(ruleFlags(), &cli.StringFlag{Name: "auth-method", Usage: "`name` of the auth method whose logins it is for"}),
		Run: func(ctx context.Context, s *session.Session) error {
			if err := required(s, "auth-method", "bind-type"); err != nil {
				return err
			}
			r := &api.ACLBindingRule{AuthMethod: s.String("auth-method")}
			setRule(s, r)
			if r.BindType != api.BindTypeManagement {
				if err := required(s, "bind-name"); err != nil {
					return err
				}
			}
			made, err := s.ACLBindingRules().Write(ctx, "", r)
			return rules.print(s, made, "creating", err)
		},
	}.Command()
}

func ruleUpdate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "change an ACL binding rule", Args: "<acl binding rule id>", Min: 1, Max: 1, Format: true,
		Description: "What no flag names stays as it is.",
		Flags:       append(ruleFlags(), &cli.BoolFlag{Name: "no-merge", Usage: "clear what no flag names, but not the auth method"}),
		Run: func(ctx context.Context, s *session.Session) error {
			r, err := s.ACLBindingRules().Get(ctx, s.Arg(0))
			if err != nil {
				return rules.print(s, nil, "reading", err)
			}
			if s.Bool("no-merge") {
				if err := required(s, "bind-type"); err != nil {
					return err
				}
				r = &api.ACLBindingRule{ID: r.ID, AuthMethod: r.AuthMethod}
			}
			setRule(s, r)
			made, err := s.ACLBindingRules().Write(ctx, s.Arg(0), r)
			return rules.print(s, made, "updating", err)
		},
	}.Command()
}
