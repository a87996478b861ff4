// Package providertest is an OIDC provider for tests, with keys of several kinds and ways to misbehave.
package providertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
)

// Client is the client that the provider knows.
const (
	ClientID     = "cluster"
	ClientSecret = "a secret of at least thirty-two bytes"
)

// Provider is a running provider.
type Provider struct {
	*httptest.Server
	RSA *rsa.PrivateKey
	EC  *ecdsa.PrivateKey
	// Fetched counts requests for the key set.
	Fetched atomic.Int64

	mu sync.Mutex
	// keys is what the key set has, misbehave answers in place of an endpoint, issued are the codes of logins.
	keys      []jose.JSONWebKey
	misbehave http.HandlerFunc
	issued    map[string]url.Values
	asserts   crypto.PublicKey
	claims    map[string]any
}

// rsaKey is the RSA key of all providers: making one is slow.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// New starts a provider with a key set of an RSA key "rsa" and an EC key "ec".
func New() *Provider {
	p := &Provider{issued: map[string]url.Values{}, RSA: rsaKey()}
	p.EC, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p.SetKeys(jose.JSONWebKey{Key: p.RSA.Public(), KeyID: "rsa", Use: "sig"}, jose.JSONWebKey{Key: p.EC.Public(), KeyID: "ec", Algorithm: "ES256"})
	m := http.NewServeMux()
	m.HandleFunc("/.well-known/openid-configuration", p.discovery)
	m.HandleFunc("/keys", p.keySet)
	m.HandleFunc("/authorize", p.authorize)
	m.HandleFunc("/token", p.token)
	m.HandleFunc("/userinfo", p.userInfo)
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		bad := p.misbehave
		p.mu.Unlock()
		if bad != nil {
			bad(w, r)
			return
		}
		m.ServeHTTP(w, r)
	}))
	return p
}

// CA is the certificate that the provider is trusted with.
func (p *Provider) CA() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}))
}

// PublicPEM encodes a public key.
func PublicPEM(key crypto.PublicKey) string {
	b, _ := x509.MarshalPKIXPublicKey(key)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: b}))
}

// SetKeys replaces the key set.
func (p *Provider) SetKeys(keys ...jose.JSONWebKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = keys
}

// Misbehave answers all requests with h; nil ends that.
func (p *Provider) Misbehave(h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.misbehave = h
}

// Assertions makes the token endpoint accept client assertions of a key in place of the secret.
func (p *Provider) Assertions(key crypto.PublicKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asserts = key
}

// SetClaims adds claims to ID tokens and overrides those that they have.
func (p *Provider) SetClaims(c map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = c
}

// Claims are the claims of a valid token of the user "ann" for the audience "nomad", with changes; nil removes one.
func (p *Provider) Claims(changes map[string]any) map[string]any {
	now := time.Now()
	all := map[string]any{
		"iss": p.URL, "sub": "ann", "aud": "nomad", "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(), "groups": []string{"dev", "ops"},
	}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

// Token signs claims with the RSA key.
func (p *Provider) Token(claims map[string]any) string { return Sign(jose.RS256, p.RSA, "rsa", claims) }

// Sign signs claims.
func Sign(alg jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	options := &jose.SignerOptions{}
	if kid != "" {
		options = options.WithHeader("kid", kid)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	if err != nil {
		panic(err)
	}
	t, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	return t
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"userinfo_endpoint": p.URL + "/userinfo", "id_token_signing_alg_values_supported": []string{"RS256"},
		"authorization_response_iss_parameter_supported": true,
	})
}

func (p *Provider) keySet(w http.ResponseWriter, _ *http.Request) {
	p.Fetched.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	writeJSON(w, jose.JSONWebKeySet{Keys: p.keys})
}

// Visit follows the URL of a login as the browser of a user, and returns the parameters of the redirect.
func (p *Provider) Visit(authURL string) (url.Values, error) {
	c := *p.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := c.Get(authURL)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		return nil, err
	}
	return to.Query(), nil
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("response_type") != "code" {
		http.Error(w, "unknown client", http.StatusBadRequest)
		return
	}
	code := uuid.NewString()
	p.mu.Lock()
	p.issued[code] = q
	p.mu.Unlock()
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}
	w.Header().Set("Location", q.Get("redirect_uri")+"?"+back.Encode())
	w.WriteHeader(http.StatusFound)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	code := r.PostFormValue("code")
	p.mu.Lock()
	q, known := p.issued[code]
	delete(p.issued, code)
	claims := p.claims
	p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	challenge := q.Get("code_challenge")
	switch {
	case !p.authenticated(r):
		refuse(w, http.StatusUnauthorized, "invalid_client")
		return
	case !known || q.Get("redirect_uri") != r.PostFormValue("redirect_uri"),
		challenge != "" && challenge != base64.RawURLEncoding.EncodeToString(sum[:]):
		refuse(w, http.StatusBadRequest, "invalid_grant")
		return
	}
	id := p.Claims(map[string]any{"aud": ClientID, "nonce": q.Get("nonce")})
	maps.Copy(id, claims)
	writeJSON(w, map[string]any{"access_token": "access", "token_type": "Bearer", "expires_in": 300, "id_token": p.Token(id)})
}

// authenticated checks the secret of the client, or its assertion.
func (p *Provider) authenticated(r *http.Request) bool {
	p.mu.Lock()
	key := p.asserts
	p.mu.Unlock()
	if key == nil {
		id, secret, _ := r.BasicAuth()
		secret, err := url.QueryUnescape(secret)
		return err == nil && id == ClientID && secret == ClientSecret
	}
	t, err := jwt.ParseSigned(r.PostFormValue("client_assertion"), []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.HS256})
	var c jwt.Claims
	return err == nil && t.Claims(key, &c) == nil && c.ValidateWithLeeway(jwt.Expected{
		Issuer: ClientID, Subject: ClientID, AnyAudience: jwt.Audience{p.URL}, Time: time.Now(),
	}, 0) == nil && t.Headers[0].KeyID != ""
}

func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text})
}

func (p *Provider) userInfo(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer access" {
		http.Error(w, "no token", http.StatusUnauthorized)
		return
	}
	writeJSON(w, map[string]any{"sub": "ann", "email": "ann@example.com", "exp": 1, "iss": "other"})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
