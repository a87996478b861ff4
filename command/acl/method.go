package acl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/specfile"
	"github.com/open-nomad/open-nomad/command/view"
)

var methods = kind[api.ACLAuthMethod, api.ACLAuthMethodListStub]{
	name: "ACL auth method", plural: "ACL auth methods", arg: "<auth method name>",
	of: func(s *session.Session) rest.Objects[api.ACLAuthMethod, api.ACLAuthMethodListStub] {
		return s.ACLAuthMethods()
	},
	heading: []string{"Name", "Type", "Default"},
	row: func(m *api.ACLAuthMethodListStub) []string {
		return []string{m.Name, m.Type, strconv.FormatBool(m.Default)}
	},
	show:    showMethod,
	deleted: "ACL auth method %s successfully deleted",
}

func showMethod(s *session.Session, m *api.ACLAuthMethod) {
	s.Print(view.Pairs([2]string{"Name", m.Name}, [2]string{"Type", m.Type}, [2]string{"Locality", m.TokenLocality},
		[2]string{"Max Token TTL", m.MaxTokenTTL.String()}, [2]string{"Token Name Format", m.TokenNameFormat},
		[2]string{"Default", strconv.FormatBool(m.Default)},
		[2]string{"Create Index", index(m.CreateIndex)}, [2]string{"Modify Index", index(m.ModifyIndex)}))
	if c := m.Config; c != nil {
		s.Titled("Auth Method Config", "\n"+view.Pairs(config(c)...))
	}
}

// config shows a configuration without its secrets.
func config(c *api.ACLAuthMethodConfig) [][2]string {
	list := func(l []string) string { return strings.Join(l, ",") }
	redacted := func(secret string) string {
		if secret == "" {
			return ""
		}
		return "redacted"
	}
	pairs := [][2]string{
		{"JWT Validation Public Keys", list(c.JWTValidationPubKeys)},
		{"JWKS URL", c.JWKSURL},
		{"OIDC Discovery URL", c.OIDCDiscoveryURL},
		{"OIDC Client ID", c.OIDCClientID},
		{"OIDC Client Secret", redacted(c.OIDCClientSecret)},
		{"OIDC Enable PKCE", strconv.FormatBool(c.OIDCEnablePKCE)},
		{"OIDC Disable UserInfo", strconv.FormatBool(c.OIDCDisableUserInfo)},
		{"OIDC Scopes", list(c.OIDCScopes)},
		{"Bound audiences", list(c.BoundAudiences)},
		{"Bound issuer", list(c.BoundIssuer)},
		{"Allowed redirects URIs", list(c.AllowedRedirectURIs)},
		{"Discovery CA pem", list(c.DiscoveryCaPem)},
		{"JWKS CA cert", c.JWKSCACert},
		{"Signing algorithms", list(c.SigningAlgs)},
		{"Expiration Leeway", c.ExpirationLeeway.String()},
		{"NotBefore Leeway", c.NotBeforeLeeway.String()},
		{"ClockSkew Leeway", c.ClockSkewLeeway.String()},
		{"Claim mappings", mappings(c.ClaimMappings)},
		{"List claim mappings", mappings(c.ListClaimMappings)},
	}
	if a := c.OIDCClientAssertion; a != nil {
		pairs = append(pairs, [2]string{"Client Assertion Key Source", a.KeySource}, [2]string{"Client Assertion Algorithm", a.KeyAlgorithm},
			[2]string{"Client Assertion Audience", list(a.Audience)})
	}
	return pairs
}

func mappings(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("{%s: %s}", k, m[k]))
	}
	return strings.Join(parts, "; ")
}

func methodFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "type", Usage: "`type` of the logins: OIDC or JWT"},
		&cli.StringFlag{Name: "token-locality", Usage: "`local` or global: where tokens of logins are valid"},
		&cli.StringFlag{Name: "token-name-format", Usage: "`name` of tokens of logins; may have ${auth_method_type}, ${auth_method_name} and ${value.CLAIM}"},
		&cli.DurationFlag{Name: "max-token-ttl", Usage: "`time` until tokens of logins expire, such as 1h"},
		&cli.BoolFlag{Name: "default", Usage: "make it the method that logins use by default"},
		&cli.StringFlag{Name: "config", Usage: "configuration as JSON `text`, @file, or - for stdin"},
	}
}

func setMethod(s *session.Session, m *api.ACLAuthMethod) error {
	for flag, to := range map[string]*string{"token-locality": &m.TokenLocality, "token-name-format": &m.TokenNameFormat} {
		if s.IsSet(flag) {
			*to = s.String(flag)
		}
	}
	if s.IsSet("type") {
		m.Type = strings.ToUpper(s.String("type"))
	}
	if m.Type != api.AuthMethodOIDC && m.Type != api.AuthMethodJWT {
		return fault.New(fault.Invalid, "-type %q is not %q or %q", m.Type, api.AuthMethodOIDC, api.AuthMethodJWT)
	}
	if s.IsSet("max-token-ttl") {
		m.MaxTokenTTL = s.Duration("max-token-ttl")
	}
	if s.IsSet("default") {
		m.Default = s.Bool("default")
	}
	if !s.IsSet("config") {
		return nil
	}
	m.Config = &api.ACLAuthMethodConfig{}
	text := s.String("config")
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return specfile.JSON("-config", []byte(text), m.Config)
	}
	return specfile.Read(s, strings.TrimPrefix(text, "@"), true, m.Config)
}

func methodCreate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "create an ACL auth method", Format: true,
		Flags: append(methodFlags(), &cli.StringFlag{Name: "name", Usage: "unique `name` of the method"}),
		Run: func(ctx context.Context, s *session.Session) error {
			if err := required(s, "name", "type", "token-locality", "max-token-ttl", "config"); err != nil {
				return err
			}
			m := &api.ACLAuthMethod{Name: s.String("name")}
			if err := setMethod(s, m); err != nil {
				return err
			}
			made, err := s.ACLAuthMethods().Write(ctx, "", m)
			return methods.print(s, made, "creating", err)
		},
	}.Command()
}

func methodUpdate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "change an ACL auth method", Args: "<auth method name>", Min: 1, Max: 1, Format: true,
		Description: "What no flag names stays as it is. A configuration replaces that of the method.",
		Flags:       methodFlags(),
		Run: func(ctx context.Context, s *session.Session) error {
			m, err := s.ACLAuthMethods().Get(ctx, s.Arg(0))
			if err != nil {
				return methods.print(s, nil, "reading", err)
			}
			if err := setMethod(s, m); err != nil {
				return err
			}
			made, err := s.ACLAuthMethods().Write(ctx, m.Name, m)
			return methods.print(s, made, "updating", err)
		},
	}.Command()
}
