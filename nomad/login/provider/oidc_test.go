package provider_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/login/provider"
	"github.com/open-nomad/open-nomad/nomad/login/providertest"
)

const redirect = "http://127.0.0.1:4649/oidc/callback"

func oidcConfig(p *providertest.Provider) *api.ACLAuthMethodConfig {
	return &api.ACLAuthMethodConfig{
		OIDCDiscoveryURL: p.URL, DiscoveryCaPem: []string{p.CA()}, OIDCClientID: providertest.ClientID, OIDCClientSecret: providertest.ClientSecret,
		OIDCEnablePKCE: true, OIDCScopes: []string{"email"}, AllowedRedirectURIs: []string{redirect},
	}
}

var login = provider.Login{RedirectURI: redirect, State: "state-1", Nonce: "nonce-1", Verifier: strings.Repeat("v", 43)}

// complete plays a login; change may alter the parameters of the response and the login.
func complete(t *testing.T, v *provider.Providers, p *providertest.Provider, c *api.ACLAuthMethodConfig, change func(url.Values, *provider.Login)) (map[string]any, error) {
	t.Helper()
	to, err := v.AuthURL(t.Context(), c, login)
	if err != nil {
		t.Fatal(err)
	}
	back, err := p.Visit(to)
	if err != nil {
		t.Fatal(err)
	}
	l := login
	if change != nil {
		change(back, &l)
	}
	return v.Complete(t.Context(), c, l, back.Get("code"), back.Get("iss"), time.Now())
}

func TestUsersLogIn(t *testing.T) {
	t.Parallel()
	p := start(t)
	v := provider.New(nil)
	c := oidcConfig(p)
	if err := v.Check(api.AuthMethodOIDC, c); err != nil {
		t.Fatal(err)
	}
	to, err := v.AuthURL(t.Context(), c, login)
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(to)
	q := u.Query()
	if q.Get("state") != login.State || q.Get("nonce") != login.Nonce || q.Get("redirect_uri") != redirect || q.Get("code_challenge_method") != "S256" ||
		q.Get("scope") != "openid email" || strings.Contains(to, login.Verifier) || strings.Contains(to, "secret") {
		t.Errorf("the URL is %s", to)
	}
	all, err := complete(t, v, p, c, nil)
	if err != nil || all["sub"] != "ann" || all["email"] != "ann@example.com" || all["iss"] != p.URL {
		t.Errorf("%v, %v", all, err)
	}
	c.OIDCDisableUserInfo, c.OIDCEnablePKCE = true, false
	if all, err = complete(t, v, p, c, nil); err != nil || all["email"] != nil {
		t.Errorf("without user info: %v, %v", all, err)
	}
}

func TestStolenResponsesAreRefused(t *testing.T) {
	t.Parallel()
	p := start(t)
	v := provider.New(nil)
	c := oidcConfig(p)
	for what, change := range map[string]func(url.Values, *provider.Login){
		"other code":      func(q url.Values, _ *provider.Login) { q.Set("code", "guessed") },
		"other issuer":    func(q url.Values, _ *provider.Login) { q.Set("iss", "https://evil") },
		"missing issuer":  func(q url.Values, _ *provider.Login) { q.Del("iss") },
		"swapped nonce":   func(_ url.Values, l *provider.Login) { l.Nonce = "nonce-2" },
		"other verifier":  func(_ url.Values, l *provider.Login) { l.Verifier = strings.Repeat("w", 43) },
		"other redirect":  func(_ url.Values, l *provider.Login) { l.RedirectURI = "http://127.0.0.1:1/oidc/callback" },
		"wrong client ID": func(url.Values, *provider.Login) { p.SetClaims(map[string]any{"aud": "other"}) },
		"other party":     func(url.Values, *provider.Login) { p.SetClaims(map[string]any{"azp": "other"}) },
		"several audiences without a party": func(url.Values, *provider.Login) {
			p.SetClaims(map[string]any{"aud": []string{providertest.ClientID, "other"}})
		},
		"ID token of another issuer": func(url.Values, *provider.Login) { p.SetClaims(map[string]any{"iss": "https://evil"}) },
		"user info of another user":  func(url.Values, *provider.Login) { p.SetClaims(map[string]any{"sub": "bob"}) },
		"no subject":                 func(url.Values, *provider.Login) { p.SetClaims(map[string]any{"sub": ""}) },
	} {
		all, err := complete(t, v, p, c, change)
		p.SetClaims(nil)
		if all != nil && err == nil || !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: %v, %v", what, all, err)
		}
	}
	wrong := *c
	wrong.OIDCClientSecret = "a wrong one"
	if _, err := complete(t, v, p, &wrong, nil); !errors.Is(err, fault.Unauthenticated) || strings.Contains(err.Error(), "wrong one") {
		t.Errorf("a wrong client secret: %v", err)
	}
}

// A provider whose token endpoint sends the client elsewhere does not get its secret there.
func TestSecretsAreNotSentOn(t *testing.T) {
	t.Parallel()
	p := start(t)
	v := provider.New(nil)
	c := oidcConfig(p)
	c.OIDCClientSecret = ""
	asked := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	t.Cleanup(other.Close)
	_, err := complete(t, v, p, c, func(url.Values, *provider.Login) {
		p.Misbehave(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https"+other.URL[4:], http.StatusTemporaryRedirect)
		})
	})
	if err == nil || asked || !strings.Contains(err.Error(), "refused a redirect") {
		t.Errorf("the other host was asked: %v; %v", asked, err)
	}
}

func TestPagesOfProvidersAreOnTheWeb(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.Misbehave(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"issuer":"` + p.URL + `","jwks_uri":"` + p.URL + `/keys","authorization_endpoint":"javascript:alert(1)"}`))
	})
	if to, err := provider.New(nil).AuthURL(t.Context(), oidcConfig(p), login); err == nil {
		t.Errorf("users are sent to %s", to)
	}
}

func TestClientsProveThemselvesByAssertions(t *testing.T) {
	t.Parallel()
	p := start(t)
	private, err := x509.MarshalPKCS8PrivateKey(p.EC)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	v := provider.New(func() (*provider.Key, error) { return &provider.Key{ID: "k1", Private: p.RSA}, nil })
	c := oidcConfig(p)
	c.OIDCClientSecret = ""
	for what, a := range map[string]*api.OIDCClientAssertion{
		"private key": {KeySource: "private_key", PrivateKey: &api.OIDCClientAssertionKey{PemKey: text, KeyID: "mine"}},
		"cluster":     {KeySource: "nomad", ExtraHeaders: map[string]string{"x": "y"}},
	} {
		p.Assertions(p.EC.Public())
		if what == "cluster" {
			p.Assertions(p.RSA.Public())
		}
		c.OIDCClientAssertion = a
		if err := v.Check(api.AuthMethodOIDC, c); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if all, err := complete(t, v, p, c, nil); err != nil || all["sub"] != "ann" {
			t.Errorf("%s: %v, %v", what, all, err)
		}
	}
	for want, a := range map[string]*api.OIDCClientAssertion{
		"is unknown":         {KeySource: "vault"},
		"needs a PrivateKey": {KeySource: "private_key"},
		"needs a KeyID":      {KeySource: "private_key", PrivateKey: &api.OIDCClientAssertionKey{PemKey: text}},
		"exactly one":        {KeySource: "private_key", PrivateKey: &api.OIDCClientAssertionKey{KeyID: "x"}},
		"no readable file":   {KeySource: "private_key", PrivateKey: &api.OIDCClientAssertionKey{KeyID: "x", PemKeyFile: "/dev/zero"}},
		"cannot sign with":   {KeySource: "private_key", KeyAlgorithm: "none", PrivateKey: &api.OIDCClientAssertionKey{PemKey: text, KeyID: "x"}},
		"cannot be set":      {KeySource: "nomad", ExtraHeaders: map[string]string{"kid": "y"}},
		"at least 32 bytes":  {KeySource: "client_secret"},
	} {
		c.OIDCClientAssertion = a
		if err := v.Check(api.AuthMethodOIDC, c); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c.OIDCClientAssertion = &api.OIDCClientAssertion{KeySource: "nomad"}
	if err := provider.New(nil).Check(api.AuthMethodOIDC, c); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "key source nomad") {
		t.Errorf("without a key of the cluster: %v", err)
	}
}

func TestRedirectsAreComparedExactly(t *testing.T) {
	t.Parallel()
	c := &api.ACLAuthMethodConfig{AllowedRedirectURIs: []string{
		"https://ui.example.com/oidc?x=1", "http://localhost:4649/oidc/callback", "http://127.0.0.1/cb", "http://[::1]:1/cb", "http://intern:80/cb",
	}}
	for uri, want := range map[string]bool{
		"https://ui.example.com/oidc?x=1":            true,
		"https://ui.example.com/oidc?x=1&y":          false,
		"https://ui.example.com/oidc":                false,
		"https://ui.example.com:8443/oidc?x=1":       false,
		"http://ui.example.com/oidc?x=1":             false,
		"https://ui.example.com.evil/oidc?x=1":       false,
		"https://ui.example.com@evil/oidc?x=1":       false,
		"HTTPS://ui.example.com/oidc?x=1":            false,
		"http://localhost:5555/oidc/callback":        true,
		"http://localhost:5555/oidc/callback/":       false,
		"http://localhost:5555/oidc/callback#x":      false,
		"http://localhost:5555/oidc/../x":            false,
		"http://u@localhost:4649/oidc/callback":      false,
		"https://localhost:4649/oidc/callback":       false,
		"http://localhost.evil:4649/oidc/callback":   false,
		"http://127.0.0.1:9/cb":                      true,
		"http://127.0.0.2:9/cb":                      false,
		"http://[::1]:9/cb":                          true,
		"http://intern:81/cb":                        false,
		"http://localhost:5555/oidc/callback?code=1": false,
		"javascript:alert(1)":                        false,
		"":                                           false,
	} {
		if got := provider.RedirectAllowed(c, uri); got != want {
			t.Errorf("%q: %v", uri, got)
		}
	}
}

func TestConfigsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	p := start(t)
	jwt := func(change func(*api.ACLAuthMethodConfig)) *api.ACLAuthMethodConfig {
		c := methods(p)["fixed"]
		change(c)
		return c
	}
	oidc := func(change func(*api.ACLAuthMethodConfig)) *api.ACLAuthMethodConfig {
		c := oidcConfig(p)
		change(c)
		return c
	}
	for want, c := range map[string]*api.ACLAuthMethodConfig{
		"missing auth method config": nil,
		"exactly one of":             jwt(func(c *api.ACLAuthMethodConfig) { c.JWKSURL = "https://x" }),
		"PEM format":                 jwt(func(c *api.ACLAuthMethodConfig) { c.JWTValidationPubKeys = []string{"key"} }),
		"is no public key": jwt(func(c *api.ACLAuthMethodConfig) {
			c.JWTValidationPubKeys = []string{"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"}
		}),
		`"none" is not supported`:  jwt(func(c *api.ACLAuthMethodConfig) { c.SigningAlgs = []string{"none"} }),
		`"HS256" is not supported`: jwt(func(c *api.ACLAuthMethodConfig) { c.SigningAlgs = []string{"HS256"} }),
		"is no URL":                jwt(func(c *api.ACLAuthMethodConfig) { c.JWTValidationPubKeys, c.JWKSURL = nil, "file:///etc/passwd" }),
		"CA certificate":           jwt(func(c *api.ACLAuthMethodConfig) { c.JWKSCACert = "x" }),
		"at most 262144":           jwt(func(c *api.ACLAuthMethodConfig) { c.BoundAudiences = []string{strings.Repeat("x", 300<<10)} }),
		"65 entries":               jwt(func(c *api.ACLAuthMethodConfig) { c.BoundIssuer = make([]string, 65) }),
		"missing OIDCDiscoveryURL": oidc(func(c *api.ACLAuthMethodConfig) { c.OIDCDiscoveryURL = "" }),
		"missing OIDCClientID":     oidc(func(c *api.ACLAuthMethodConfig) { c.OIDCClientID = "" }),
		"is not absolute":          oidc(func(c *api.ACLAuthMethodConfig) { c.AllowedRedirectURIs = []string{"/x"} }),
	} {
		kind := api.AuthMethodJWT
		if c != nil && c.OIDCClientID != "" || strings.HasSuffix(want, "OIDCClientID") {
			kind = api.AuthMethodOIDC
		}
		if err := provider.New(nil).Check(kind, c); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
