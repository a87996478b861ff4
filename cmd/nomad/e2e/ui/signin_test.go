package ui

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// provider is an OIDC provider that logs everyone in as ann.
type provider struct {
	*httptest.Server
	key *rsa.PrivateKey

	mu sync.Mutex
	// answer changes the parameters of the next redirect back, claims those of the next ID token.
	answer func(url.Values)
	claims func(map[string]any)
	logins map[string]url.Values
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key, logins: map[string]url.Values{}}
	m := http.NewServeMux()
	m.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"}, "authorization_response_iss_parameter_supported": true,
		})
	})
	m.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "kid": "k", "use": "sig", "alg": "RS256", "n": encoded(key.N.Bytes()), "e": encoded(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	m.HandleFunc("/authorize", p.authorize)
	m.HandleFunc("/token", p.token)
	p.Server = httptest.NewServer(m)
	t.Cleanup(p.Close)
	return p
}

// next changes the answer to the next login.
func (p *provider) next(answer func(url.Values), claims func(map[string]any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer, p.claims = answer, claims
}

func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, code := r.URL.Query(), rand.Text()
	p.logins[code] = q
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}
	if p.answer != nil {
		p.answer(back)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound) //nolint:gosec // a provider of this test
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, known := p.logins[r.PostFormValue("code")]
	if !known {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		reply(w, map[string]any{"error": "invalid_grant"})
		return
	}
	now := time.Now().Unix()
	claims := map[string]any{"iss": p.URL, "sub": "ann", "aud": "cluster", "iat": now, "exp": now + 3600, "nonce": q.Get("nonce"), "groups": []string{"dev"}}
	if p.claims != nil {
		p.claims(claims)
	}
	body, _ := json.Marshal(claims)
	signed := encoded([]byte(`{"alg":"RS256","kid":"k"}`)) + "." + encoded(body)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(nil, p.key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	reply(w, map[string]any{"access_token": "x", "token_type": "Bearer", "expires_in": 300, "id_token": signed + "." + encoded(signature)})
}

func encoded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// A user signs in at an identity provider. Each answer of the provider that is no login shows why, and leaves the user with
// the token of before.
func TestSignInAtAProviderInABrowser(t *testing.T) {
	a := kit.PrepareGuarded(t)
	a.Launch()
	p := newProvider(t)
	root := a.As(kit.ManagementToken)
	if _, err := root.ACLPolicies().Upsert(&api.ACLPolicy{Name: "readers", Rules: `namespace "default" { policy = "read" }`}, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := root.ACLAuthMethods().Create(&api.ACLAuthMethod{
		Name: "company", Type: "OIDC", TokenLocality: "local", MaxTokenTTL: time.Hour, Default: true, Config: &api.ACLAuthMethodConfig{
			OIDCDiscoveryURL: p.URL, OIDCClientID: "cluster", OIDCClientSecret: "a secret", OIDCEnablePKCE: true,
			AllowedRedirectURIs: []string{a.API.Address() + "/ui/settings/tokens"}, ListClaimMappings: map[string]string{"groups": "groups"},
		},
	}, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := root.ACLBindingRules().Create(&api.ACLBindingRule{AuthMethod: "company", Selector: "dev in list.groups", BindType: "policy", BindName: "readers"}, nil); err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, a.API.Address())
	b.visit("/ui/jobs")
	b.see("Permission denied")
	b.click("Sign in with a token")
	for name, c := range map[string]struct {
		answer func(url.Values)
		claims func(map[string]any)
		want   string
	}{
		"cancelled": {answer: func(v url.Values) {
			v.Del("code")
			v.Set("error", "access_denied")
			v.Set("error_description", "ann said no")
		}, want: "the identity provider refused it: access_denied, ann said no"},
		"other state":   {answer: func(v url.Values) { v.Set("state", v.Get("state")+"x") }, want: "no login has begun with this auth method"},
		"other issuer":  {answer: func(v url.Values) { v.Set("iss", "https://other.example") }, want: "another issuer"},
		"unknown code":  {answer: func(v url.Values) { v.Set("code", "guessed") }, want: "invalid_grant"},
		"other nonce":   {claims: func(m map[string]any) { m["nonce"] = "of another login" }, want: "nonce"},
		"without rules": {claims: func(m map[string]any) { m["groups"] = []string{"guests"} }, want: "no role or policy"},
	} {
		p.next(c.answer, c.claims)
		b.click("company (default)")
		b.until(name, "document.querySelector('main [role=alert]')?.textContent.includes("+quoted(c.want)+")")
		b.see("You are not signed in: ")
		if eval[string](b, "location.search + (sessionStorage.getItem('token') || '')") != "" {
			t.Errorf("%s: the code stays in the address, or there is a token", name)
		}
	}
	b.accessible()
	p.next(nil, nil)
	b.click("company (default)")
	b.see("Your token", "OIDC-company", "readers", "in 59 min")
	b.exec("document.querySelector('nav a').click()")
	b.see("There are no jobs")
	secret := eval[string](b, "sessionStorage.getItem('token')")
	if self, _, err := a.As(secret).ACLTokens().Self(nil); err != nil || self.ExpirationTime == nil {
		t.Errorf("the token: %+v, %v", self, err)
	}

	// The address of a completed login is worth nothing in this tab or another.
	b.visit("/ui/settings/tokens?code=c&state=s")
	b.see("no sign-in has begun in this tab")
	// With a deleted token the methods are still offered.
	if self, _, err := a.As(secret).ACLTokens().Self(nil); err != nil {
		t.Error(err)
	} else if _, err := root.ACLTokens().Delete(self.AccessorID, nil); err != nil {
		t.Error(err)
	}
	b.visit("/ui/settings/tokens")
	b.see("The token is not valid")
	b.click("company (default)")
	b.see("Your token", "OIDC-company")
	b.clean()
}

// A token expires while its user fills in a form: the page shows it without a request of the user, and after signing in on
// the same page what was typed is there and is saved.
func TestTokenExpiresWhileAPageIsOpen(t *testing.T) {
	a := kit.PrepareGuarded(t)
	a.Launch()
	root := a.As(kit.ManagementToken)
	token := &api.ACLToken{Name: "short", Type: "management", ExpirationTTL: 20 * time.Second}
	token, _, err := root.ACLTokens().Create(token, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, a.API.Address())
	b.signIn(token.SecretID)
	b.visit("/ui/variables/new")
	b.fill("input[name=path]", "app/config")
	b.fill(".items input", "color")
	b.fill(".items textarea", "green")
	b.see("Your token has expired or was deleted")
	b.accessible()
	b.click("Sign in again")
	b.fill("dialog input[name=token]", "00000000-0000-4000-8000-000000000000")
	b.press("document.querySelector('.toast.bad') && document.body.innerText.includes('Your token has expired')", "Sign in")
	b.click("Sign in again")
	b.fill("dialog input[name=token]", kit.ManagementToken)
	b.press("!document.body.innerText.includes('Your token has expired')", "Sign in")
	b.press("location.pathname === '/ui/variables/var/app%2Fconfig@default'", "Save")
	if v, _, err := root.Variables().Read("app/config", nil); err != nil || v.Items["color"] != "green" {
		t.Errorf("stored %v, %v", v, err)
	}

	// A page that follows changes continues after that.
	if token, _, err = root.ACLTokens().Create(&api.ACLToken{Name: "short", Type: "management", ExpirationTTL: 20 * time.Second}, nil); err != nil {
		t.Fatal(err)
	}
	b.signIn(token.SecretID)
	b.visit("/ui/jobs")
	b.see("There are no jobs", "Your token has expired or was deleted")
	b.click("Sign in again")
	b.fill("dialog input[name=token]", kit.ManagementToken)
	b.press("!document.body.innerText.includes('Your token has expired')", "Sign in")
	if _, _, err := root.Jobs().Register(kit.ShellJob("late", "exec sleep 1000"), nil); err != nil {
		t.Fatal(err)
	}
	b.see("late")
	b.clean()
}
