package acl

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
)

var tokens = kind[api.ACLToken, api.ACLTokenListStub]{
	name: "ACL token", plural: "ACL tokens", arg: "<accessor id>",
	of: func(s *session.Session) rest.Objects[api.ACLToken, api.ACLTokenListStub] {
		return s.ACLTokens()
	},
	heading: []string{"Name", "Type", "Global", "Accessor ID", "Expired"},
	row: func(t *api.ACLTokenListStub) []string {
		expired := (&api.ACLToken{ExpirationTime: t.ExpirationTime}).Expired(time.Now())
		return []string{t.Name, t.Type, strconv.FormatBool(t.Global), t.AccessorID, strconv.FormatBool(expired)}
	},
	show:    func(s *session.Session, t *api.ACLToken) { s.Print(rows.ACLToken(t)) },
	deleted: "Token %s successfully deleted",
}

// secretIn reads a secret from a file.
func secretIn(s *session.Session, path string) (string, error) {
	name, text, err := s.Source(path)
	if err != nil {
		return "", session.Failed("reading secret", err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fault.New(fault.Invalid, "%s holds no secret", name)
	}
	return secret, nil
}

func bootstrap(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "create the first management token", Args: "[<file with its secret, - for stdin>]", Max: 1, Format: true,
		Description: "Without a file the secret is random. It is printed once: keep it.",
		Run: func(ctx context.Context, s *session.Session) error {
			var secret string
			if path := s.Arg(0); path != "" {
				var err error
				if secret, err = secretIn(s, path); err != nil {
					return err
				}
			}
			t, err := s.ACLBootstrap(ctx, secret)
			if err != nil {
				return session.Failed("bootstrapping", err)
			}
			return tokens.print(s, t, "", nil)
		},
	}.Command()
}

func tokenSelf(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show the own token", Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			t, err := s.ACLTokenSelf(ctx)
			return tokens.print(s, t, "reading own", err)
		},
	}.Command()
}

// rightsFlags name what a token permits.
func rightsFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "name", Usage: "human-readable `name` of the token"},
		&cli.StringSliceFlag{Name: "policy", Usage: "`name` of a policy; may be repeated"},
		&cli.StringSliceFlag{Name: "role-id", Usage: "`id` of a role; may be repeated"},
		&cli.StringSliceFlag{Name: "role-name", Usage: "`name` of a role; may be repeated"},
	}
}

// setRights changes a token as the flags ask. Policies and roles replace those of the token.
func setRights(s *session.Session, t *api.ACLToken) error {
	if s.IsSet("name") {
		t.Name = s.String("name")
	}
	if s.IsSet("type") {
		t.Type = s.String("type")
	}
	if t.Type != api.ACLClientToken && t.Type != api.ACLManagementToken {
		return fault.New(fault.Invalid, "-type %q is not %q or %q", t.Type, api.ACLClientToken, api.ACLManagementToken)
	}
	if s.IsSet("policy") {
		t.Policies = s.Strings("policy")
	}
	if s.IsSet("role-id") || s.IsSet("role-name") {
		t.Roles = nil
	}
	for _, id := range s.Strings("role-id") {
		t.Roles = append(t.Roles, &api.ACLTokenRoleLink{ID: id})
	}
	for _, name := range s.Strings("role-name") {
		t.Roles = append(t.Roles, &api.ACLTokenRoleLink{Name: name})
	}
	return nil
}

// warnMissing warns of policies that do not exist: the server accepts them.
func warnMissing(ctx context.Context, s *session.Session, names []string) {
	for _, name := range names {
		if _, err := s.ACLPolicies().Get(ctx, name); errors.Is(err, fault.NotFound) {
			s.Warnf("Warning: policy %q does not exist: it permits nothing until it is created", name)
		}
	}
}

func tokenCreate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "create an ACL token", Args: "[<file with its secret, - for stdin>]", Max: 1, Format: true,
		Description: "A file and -accessor create a token with a known secret and accessor id.",
		Flags: append(rightsFlags(),
			&cli.StringFlag{Name: "type", Value: api.ACLClientToken, Usage: "`type` of the token: client or management"},
			&cli.BoolFlag{Name: "global", Usage: "valid in all regions"},
			&cli.StringFlag{Name: "ttl", Usage: "`time` until the token expires, such as 1h; none by default"},
			&cli.StringFlag{Name: "accessor", Usage: "accessor `id` of the token; needs a file with the secret"}),
		Run: func(ctx context.Context, s *session.Session) error {
			t := &api.ACLToken{Type: s.String("type"), Global: s.Bool("global"), AccessorID: s.String("accessor")}
			if err := setRights(s, t); err != nil {
				return err
			}
			if text := s.String("ttl"); text != "" {
				ttl, err := time.ParseDuration(text)
				if err != nil || ttl <= 0 {
					return fault.New(fault.Invalid, "-ttl %q is not a duration such as 1h", text)
				}
				t.ExpirationTTL = ttl
			}
			if (t.AccessorID == "") != (s.Arg(0) == "") {
				return fault.New(fault.Invalid, "a token with a known secret needs both -accessor and a file with the secret")
			}
			if path := s.Arg(0); path != "" {
				var err error
				if t.SecretID, err = secretIn(s, path); err != nil {
					return err
				}
			}
			warnMissing(ctx, s, t.Policies)
			made, err := s.ACLTokens().Write(ctx, t.AccessorID, t)
			return tokens.print(s, made, "creating", err)
		},
	}.Command()
}

func tokenUpdate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "change an ACL token", Args: "<accessor id>", Min: 1, Max: 1, Format: true,
		Description: "What no flag names stays as it is. Policies and roles replace those of the token.",
		Flags:       append(rightsFlags(), &cli.StringFlag{Name: "type", Usage: "`type` of the token: client or management"}),
		Run: func(ctx context.Context, s *session.Session) error {
			t, err := s.ACLTokens().Get(ctx, s.Arg(0))
			if err != nil {
				return tokens.print(s, nil, "reading", err)
			}
			if err := setRights(s, t); err != nil {
				return err
			}
			warnMissing(ctx, s, s.Strings("policy"))
			made, err := s.ACLTokens().Write(ctx, t.AccessorID, t)
			return tokens.print(s, made, "updating", err)
		},
	}.Command()
}

// required refuses flags that are not given.
func required(s *session.Session, flags ...string) error {
	for _, f := range flags {
		if !s.IsSet(f) {
			return fault.New(fault.Invalid, "-%s is missing", f)
		}
	}
	return nil
}
