package login

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/login/claims"
	"github.com/open-nomad/open-nomad/nomad/login/provider"
)

// requestMax limits the texts of requests of logins.
const requestMax = 4 << 10

// Login exchanges a JWT for a token.
func (s *Service) Login(ctx context.Context, r *api.ACLLoginRequest) (*api.ACLTokenWriteResponse, error) {
	if r.LoginToken == "" {
		return nil, fault.New(fault.Invalid, "missing login token")
	}
	m, err := s.method(r.AuthMethodName, api.AuthMethodJWT)
	if err != nil {
		return nil, err
	}
	done, err := s.turn(ctx, m)
	if err != nil {
		return nil, err
	}
	defer done()
	now := time.Now()
	all, err := s.Providers.VerifyJWT(ctx, m.Config, r.LoginToken, now)
	if err != nil {
		return nil, s.failed(m, fmt.Errorf("unable to validate provided token: %w", err))
	}
	return s.issue(ctx, m, all, now)
}

// AuthURL begins a login at an OIDC provider.
func (s *Service) AuthURL(ctx context.Context, r *api.ACLOIDCAuthURLRequest) (*api.ACLOIDCAuthURLResponse, error) {
	switch {
	case r.ClientNonce == "":
		return nil, fault.New(fault.Invalid, "missing client nonce")
	case r.RedirectURI == "":
		return nil, fault.New(fault.Invalid, "missing redirect URI")
	case len(r.ClientNonce)+len(r.RedirectURI) > requestMax:
		return nil, fault.New(fault.Invalid, "client nonce and redirect URI have more than %d bytes", requestMax)
	}
	m, err := s.method(r.AuthMethodName, api.AuthMethodOIDC)
	if err != nil {
		return nil, err
	}
	if !provider.RedirectAllowed(m.Config, r.RedirectURI) {
		return nil, fault.New(fault.Invalid, "unauthorized redirect_uri: it is not one of AllowedRedirectURIs of auth method %q", m.Name)
	}
	done, err := s.turn(ctx, m)
	if err != nil {
		return nil, err
	}
	defer done()
	url, err := s.Providers.AuthURL(ctx, m.Config, s.flows.begin(m, r.RedirectURI, r.ClientNonce, time.Now()))
	if err != nil {
		return nil, s.failed(m, err)
	}
	return &api.ACLOIDCAuthURLResponse{AuthURL: url}, nil
}

// CompleteAuth ends a login at an OIDC provider: it exchanges the code of the provider for a token.
func (s *Service) CompleteAuth(ctx context.Context, r *api.ACLOIDCCompleteAuthRequest) (*api.ACLTokenWriteResponse, error) {
	switch {
	case r.ClientNonce == "" || r.State == "" || r.Code == "" || r.RedirectURI == "":
		return nil, fault.New(fault.Invalid, "client nonce, state, code and redirect URI are needed")
	case len(r.ClientNonce)+len(r.State)+len(r.Code)+len(r.Iss)+len(r.RedirectURI) > 4*requestMax:
		return nil, fault.New(fault.Invalid, "the request has more than %d bytes", 4*requestMax)
	}
	m, err := s.method(r.AuthMethodName, api.AuthMethodOIDC)
	if err != nil {
		return nil, err
	}
	done, err := s.turn(ctx, m)
	if err != nil {
		return nil, err
	}
	defer done()
	now := time.Now()
	l, err := s.flows.finish(m, r.RedirectURI, r.ClientNonce, r.State, now)
	if err != nil {
		return nil, s.failed(m, err)
	}
	all, err := s.Providers.Complete(ctx, m.Config, l, r.Code, r.Iss, now)
	if err != nil {
		return nil, s.failed(m, fmt.Errorf("unable to complete the login: %w", err))
	}
	return s.issue(ctx, m, all, now)
}

// method returns the auth method of a login.
func (s *Service) method(name, kind string) (*api.ACLAuthMethod, error) {
	if name == "" {
		return nil, fault.New(fault.Invalid, "missing auth method name")
	}
	m := s.State.Read().ACLAuthMethod(name)
	if m == nil || m.Config == nil {
		return nil, fault.New(fault.Invalid, "auth-method %q not found", name)
	}
	if m.Type != kind {
		return nil, fault.New(fault.Invalid, "auth-method %q is of the type %s, not %s", name, m.Type, kind)
	}
	return m, nil
}

// turn waits until the login may proceed; done ends it.
func (s *Service) turn(ctx context.Context, m *api.ACLAuthMethod) (done func(), err error) {
	wait, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	if done, err = s.slots.Acquire(wait, m.Name); err != nil {
		return nil, fault.New(fault.Exhausted, "too many logins are under way with auth method %q: try again in a few seconds", m.Name)
	}
	return done, nil
}

// failed logs why a login failed; only its user needs to know, so it does so for debugging.
func (s *Service) failed(m *api.ACLAuthMethod, err error) error {
	s.Log.Debug("login failed", "method", m.Name, "error", err)
	return err
}

// issue makes the token that the binding rules give to the claims.
func (s *Service) issue(ctx context.Context, m *api.ACLAuthMethod, all map[string]any, now time.Time) (*api.ACLTokenWriteResponse, error) {
	mapped, err := claims.Map(m.Config, all)
	if err != nil {
		return nil, s.failed(m, err)
	}
	if m.Config.VerboseLogging {
		s.Log.Debug("claims of a login", "method", m.Name, "value", mapped.Value, "list", mapped.List)
	}
	tx := s.State.Read()
	binding := mapped.Bind(tx.ACLBindingRulesOf(m.Name), tx)
	if binding == nil {
		return nil, s.failed(m, fault.New(fault.Denied, "no role or policy bindings matched: no binding rule of auth method %q gives this identity a policy or role that exists", m.Name))
	}
	expires := now.Add(m.MaxTokenTTL).UTC()
	t := &api.ACLToken{
		AccessorID: uuid.NewString(), SecretID: uuid.NewString(), Type: api.ACLClientToken, Policies: binding.Policies, Roles: binding.Roles,
		Global: m.TokenLocality == api.TokenLocalityGlobal, CreateTime: now.UTC(), ExpirationTime: &expires, ExpirationTTL: m.MaxTokenTTL,
	}
	if binding.Management {
		t.Type = api.ACLManagementToken
	}
	t.Name = tokenName(m, mapped)
	t.Hash = hashToken(t)
	sealed, err := s.Secrets.SealToken(ctx, t)
	if err != nil {
		return nil, err
	}
	res, err := s.Raft.Propose(ctx, &Issue{Token: sealed, Method: m.Name, MethodIndex: m.ModifyIndex})
	if err != nil {
		return nil, err
	}
	t.CreateIndex, t.ModifyIndex = res.Index, res.Index
	s.Log.Info("login", "method", m.Name, "accessor", t.AccessorID, "name", t.Name, "type", t.Type)
	return &api.ACLTokenWriteResponse{Token: t, WriteMeta: api.WriteMeta{Index: res.Index}}, nil
}

// tokenName fills the name format of the method. Claims are texts of another system: what cannot be printed is left out.
func tokenName(m *api.ACLAuthMethod, mapped *claims.Claims) string {
	name, _ := mapped.Fill(m.TokenNameFormat, map[string]string{nameOfMethod: m.Name, typeOfMethod: m.Type})
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name[:min(len(name), nameMax)])
	return strings.ToValidUTF8(name, "")
}

func hashToken(t *api.ACLToken) []byte {
	shown := *t
	shown.SecretID = ""
	return hash(&shown)
}
