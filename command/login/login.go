package login

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
)

// Login is "nomad login".
func Login(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "log in with an identity of another system and get an ACL token", Format: true,
		Description: "An OIDC method prints, and on a terminal opens, the page of the identity provider and waits for the\n" +
			"browser to come back. A JWT method exchanges the JWT of -login-token.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "method", Usage: "`name` of the auth method; by default the default method"},
			&cli.StringFlag{Name: "type", Usage: "`type` of the default method to take: OIDC or JWT"},
			&cli.StringFlag{Name: "oidc-callback-addr", Value: "localhost:4649", Usage: "`address` that waits for the browser"},
			&cli.StringFlag{Name: "login-token", Usage: "the `JWT`, @file, or - for stdin"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			method, err := choose(ctx, s)
			if err != nil {
				return err
			}
			t, err := with(ctx, s, method)
			if err != nil {
				return session.Failed(fmt.Sprintf("logging in via %q", method.Name), err)
			}
			if s.Formatted() {
				return s.Document(t)
			}
			s.Printf("Successfully logged in via %s and %s\n\n", method.Type, method.Name)
			s.Print(rows.ACLToken(t))
			return nil
		},
	}.Command()
}

// choose finds the method of -method, or the default one.
func choose(ctx context.Context, s *session.Session) (*api.ACLAuthMethodListStub, error) {
	all, err := s.ACLAuthMethods().List(ctx, rest.Query{})
	if err != nil {
		return nil, session.Failed("listing ACL auth methods", err)
	}
	name, kind := s.String("method"), strings.ToUpper(s.String("type"))
	if kind != "" && kind != api.AuthMethodOIDC && kind != api.AuthMethodJWT {
		return nil, fault.New(fault.Invalid, "-type %q is not %q or %q", kind, api.AuthMethodOIDC, api.AuthMethodJWT)
	}
	var known []string
	for _, m := range all {
		switch {
		case kind != "" && m.Type != kind:
		case m.Name == name, name == "" && m.Default:
			return m, nil
		default:
			known = append(known, m.Name)
		}
	}
	if name == "" {
		return nil, fault.New(fault.Invalid, "no default auth method found: use -method with one of [%s]", strings.Join(known, ", "))
	}
	return nil, fault.New(fault.NotFound, "auth method %q not found: use one of [%s]", name, strings.Join(known, ", "))
}

func with(ctx context.Context, s *session.Session, method *api.ACLAuthMethodListStub) (*api.ACLToken, error) {
	switch method.Type {
	case api.AuthMethodJWT:
		jwt, err := loginToken(s)
		if err != nil {
			return nil, err
		}
		return s.ACLLogin(ctx, &api.ACLLoginRequest{AuthMethodName: method.Name, LoginToken: jwt})
	case api.AuthMethodOIDC:
		return oidc(ctx, s, method.Name)
	}
	return nil, fault.New(fault.Unimplemented, "auth methods of type %q are not supported", method.Type)
}

// loginToken is the JWT of -login-token.
func loginToken(s *session.Session) (string, error) {
	given := s.String("login-token")
	if path, isFile := strings.CutPrefix(given, "@"); isFile || given == "-" {
		name, text, err := s.Source(path)
		if err != nil {
			return "", err
		}
		if given = strings.TrimSpace(string(text)); given == "" {
			return "", fault.New(fault.Invalid, "%s holds no JWT", name)
		}
	}
	if given == "" {
		return "", fault.New(fault.Invalid, "a JWT method needs -login-token")
	}
	return given, nil
}
