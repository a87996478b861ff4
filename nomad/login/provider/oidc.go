package provider

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/login/fetch"
)

// codeBytes is how many bytes of the error code of a provider are shown.
const codeBytes = 64

// Login is a login at an OIDC provider that has begun.
type Login struct {
	RedirectURI string
	// State, Nonce and Verifier are random; Verifier is used with PKCE only.
	State, Nonce, Verifier string
}

// AuthURL returns the page of the provider to send the user to.
func (p *Providers) AuthURL(ctx context.Context, c *api.ACLAuthMethodConfig, l Login) (string, error) {
	d, _, err := p.issuer(ctx, c)
	if err != nil {
		return "", err
	}
	if err := checkURL("authorization_endpoint of the provider", d.Endpoint().AuthURL); err != nil {
		return "", fault.Wrap(fault.Unavailable, err)
	}
	options := []oauth2.AuthCodeOption{oidc.Nonce(l.Nonce)}
	if c.OIDCEnablePKCE {
		options = append(options, oauth2.S256ChallengeOption(l.Verifier))
	}
	return d.client(c, l).AuthCodeURL(l.State, options...), nil
}

// client returns what asks the provider for tokens.
func (d *discovered) client(c *api.ACLAuthMethodConfig, l Login) *oauth2.Config {
	endpoint := d.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if c.OIDCClientAssertion != nil || c.OIDCClientSecret == "" ||
		len(d.TokenAuth) > 0 && !slices.Contains(d.TokenAuth, "client_secret_basic") && slices.Contains(d.TokenAuth, "client_secret_post") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	scopes := []string{oidc.ScopeOpenID}
	for _, s := range c.OIDCScopes {
		if !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	config := &oauth2.Config{ClientID: c.OIDCClientID, Endpoint: endpoint, RedirectURL: l.RedirectURI, Scopes: scopes}
	if c.OIDCClientAssertion == nil {
		config.ClientSecret = c.OIDCClientSecret
	}
	return config
}

// Complete exchanges the code that the provider gave to the user for the claims of the user, with numbers as [json.Number].
// iss is the issuer that the provider named in its response; empty when it named none.
func (p *Providers) Complete(ctx context.Context, c *api.ACLAuthMethodConfig, l Login, code, iss string, now time.Time) (map[string]any, error) {
	d, client, err := p.issuer(ctx, c)
	if err != nil {
		return nil, err
	}
	issuer := issuerOf(c.OIDCDiscoveryURL)
	if iss != issuer && (iss != "" || d.IssInResponse) {
		return nil, fault.New(fault.Unauthenticated, "the response is of another issuer than that of the auth method")
	}
	var options []oauth2.AuthCodeOption
	if c.OIDCEnablePKCE {
		options = append(options, oauth2.VerifierOption(l.Verifier))
	}
	if c.OIDCClientAssertion != nil {
		assertion, err := p.assertion(c, now)
		if err != nil {
			return nil, err
		}
		options = append(options, oauth2.SetAuthURLParam("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
			oauth2.SetAuthURLParam("client_assertion", assertion))
	}
	ctx, cancel := context.WithTimeout(ctx, 2*p.Timeout)
	defer cancel()
	ctx = oidc.ClientContext(ctx, client) // sets the client of oauth2, too
	tokens, err := d.client(c, l).Exchange(ctx, code, options...)
	if err != nil {
		return nil, exchangeError(err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	if raw == "" {
		return nil, fault.New(fault.Unauthenticated, "the provider returned no ID token")
	}
	want := expected{issuers: []string{issuer}, audiences: c.BoundAudiences, authorized: c.OIDCClientID, nonce: l.Nonce}
	if len(want.audiences) == 0 {
		want.audiences = []string{c.OIDCClientID}
	}
	all, err := verify(ctx, raw, algorithms(c, nil), d.keys, c, want, now)
	if err != nil || c.OIDCDisableUserInfo || d.UserInfoEndpoint() == "" {
		return all, err
	}
	return all, d.addUserInfo(ctx, all, tokens)
}

// exchangeError describes a failed exchange without the reply of the provider, which may repeat what was sent.
func exchangeError(err error) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		return fault.New(fault.Unavailable, "exchange the code at the provider: %w", fetch.Short(err))
	}
	code := refused.ErrorCode
	if len(code) > codeBytes {
		code = code[:codeBytes]
	}
	status := http.StatusOK
	if refused.Response != nil {
		status = refused.Response.StatusCode
	}
	return fault.New(fault.Unauthenticated, "the provider refused the code: status %d, error %q", status, code)
}

// tokenClaims are taken from the ID token only.
var tokenClaims = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "nonce", "azp", "auth_time", "acr", "amr", "at_hash", "sid", "jti"}

// addUserInfo adds the claims of the user info endpoint to those of the ID token.
func (d *discovered) addUserInfo(ctx context.Context, all map[string]any, tokens *oauth2.Token) error {
	info, err := d.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return fault.New(fault.Unavailable, "fetch the user info: %w", fetch.Short(err))
	}
	if subject, _ := all["sub"].(string); subject == "" || info.Subject != subject {
		return fault.New(fault.Unauthenticated, "the user info is of another subject than the ID token")
	}
	var raw json.RawMessage
	if err := info.Claims(&raw); err != nil {
		return fault.New(fault.Unauthenticated, "the user info is no JSON object")
	}
	more, err := decodeClaims(raw)
	if err != nil {
		return err
	}
	for name, value := range more {
		if !slices.Contains(tokenClaims, name) {
			all[name] = value
		}
	}
	return nil
}
