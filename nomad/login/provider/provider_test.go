package provider_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/login/provider"
	"github.com/open-nomad/open-nomad/nomad/login/providertest"
)

func start(t *testing.T) *providertest.Provider {
	t.Helper()
	p := providertest.New()
	t.Cleanup(p.Close)
	return p
}

// methods are the three ways to know the keys of a provider.
func methods(p *providertest.Provider) map[string]*api.ACLAuthMethodConfig {
	return map[string]*api.ACLAuthMethodConfig{
		"fixed": {
			JWTValidationPubKeys: []string{providertest.PublicPEM(p.RSA.Public()), providertest.PublicPEM(p.EC.Public())},
			BoundAudiences:       []string{"nomad"}, BoundIssuer: []string{p.URL},
		},
		"jwks": {
			JWKSURL: p.URL + "/keys", JWKSCACert: p.CA(), BoundAudiences: []string{"nomad"}, BoundIssuer: []string{p.URL}, SigningAlgs: []string{"RS256", "ES256"},
		},
		"discovery": {OIDCDiscoveryURL: p.URL, DiscoveryCaPem: []string{p.CA()}, BoundAudiences: []string{"other", "nomad"}, SigningAlgs: []string{"RS256", "ES256"}},
	}
}

func TestValidTokensAreAccepted(t *testing.T) {
	t.Parallel()
	p := start(t)
	v := provider.New(nil)
	now := time.Now()
	for name, c := range methods(p) {
		if err := v.Check(api.AuthMethodJWT, c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for what, token := range map[string]string{
			"RSA":           p.Token(p.Claims(nil)),
			"EC":            providertest.Sign(jose.ES256, p.EC, "ec", p.Claims(nil)),
			"no key id":     providertest.Sign(jose.ES256, p.EC, "", p.Claims(nil)),
			"audiences":     p.Token(p.Claims(map[string]any{"aud": []string{"x", "nomad"}})),
			"skewed iat":    p.Token(p.Claims(map[string]any{"iat": now.Add(30 * time.Second).Unix(), "nbf": nil})),
			"within skew":   p.Token(p.Claims(map[string]any{"exp": now.Add(-30 * time.Second).Unix()})),
			"no expiration": p.Token(p.Claims(map[string]any{"exp": nil})),
			"no beginning":  p.Token(p.Claims(map[string]any{"iat": nil, "nbf": nil})),
		} {
			all, err := v.VerifyJWT(t.Context(), c, token, now)
			if err != nil || all["sub"] != "ann" {
				t.Errorf("%s, %s: %v, %v", name, what, all, err)
			}
		}
	}
}

// unsecured makes a token with the algorithm none.
func unsecured(claims map[string]any) string {
	body, _ := json.Marshal(claims)
	e := base64.RawURLEncoding
	return e.EncodeToString([]byte(`{"alg":"none","kid":"rsa"}`)) + "." + e.EncodeToString(body) + "."
}

func TestForgedAndStaleTokensAreRefused(t *testing.T) {
	t.Parallel()
	p := start(t)
	v := provider.New(nil)
	now := time.Now()
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	otherEC, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	valid := p.Token(p.Claims(nil))
	parts := strings.Split(valid, ".")
	changed := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"root","aud":"nomad","iss":"` + p.URL + `","exp":9999999999}`))
	for name, c := range methods(p) {
		for what, token := range map[string]string{
			"no token":             "bad",
			"empty":                "",
			"algorithm none":       unsecured(p.Claims(nil)),
			"HMAC of a public key": providertest.Sign(jose.HS256, []byte(providertest.PublicPEM(p.RSA.Public())), "rsa", p.Claims(nil)),
			"unlisted algorithm":   providertest.Sign(jose.RS512, p.RSA, "rsa", p.Claims(nil)),
			"PSS for PKCS1":        providertest.Sign(jose.PS256, p.RSA, "rsa", p.Claims(nil)),
			"foreign key":          providertest.Sign(jose.RS256, other, "rsa", p.Claims(nil)),
			"foreign EC key":       providertest.Sign(jose.ES256, otherEC, "ec", p.Claims(nil)),
			"other claims":         parts[0] + "." + changed + "." + parts[2],
			"no signature":         parts[0] + "." + parts[1] + ".",
			"wrong audience":       p.Token(p.Claims(map[string]any{"aud": "elsewhere"})),
			"no audience":          p.Token(p.Claims(map[string]any{"aud": nil})),
			"audience in a map":    p.Token(p.Claims(map[string]any{"aud": map[string]string{"nomad": "nomad"}})),
			"other issuer":         p.Token(p.Claims(map[string]any{"iss": "https://evil"})),
			"no issuer":            p.Token(p.Claims(map[string]any{"iss": nil})),
			"issuer with a slash":  p.Token(p.Claims(map[string]any{"iss": p.URL + "/"})),
			"expired":              p.Token(p.Claims(map[string]any{"exp": at(-time.Hour)})),
			"just expired":         p.Token(p.Claims(map[string]any{"exp": at(-61 * time.Second)})),
			"not yet":              p.Token(p.Claims(map[string]any{"nbf": at(time.Hour)})),
			"issued in the future": p.Token(p.Claims(map[string]any{"iat": at(time.Hour), "nbf": nil})),
			"no times":             p.Token(p.Claims(map[string]any{"iat": nil, "nbf": nil, "exp": nil})),
			"old without exp":      p.Token(p.Claims(map[string]any{"iat": at(-time.Hour), "nbf": at(-time.Hour), "exp": nil})),
			"exp as a text":        p.Token(p.Claims(map[string]any{"exp": "9999999999"})),
			"exp too large":        p.Token(p.Claims(map[string]any{"exp": 1e300})),
			"exp negative":         p.Token(p.Claims(map[string]any{"exp": -1})),
			"oversized":            p.Token(p.Claims(map[string]any{"x": strings.Repeat("x", provider.TokenBytes)})),
		} {
			all, err := v.VerifyJWT(t.Context(), c, token, now)
			if all != nil || !errors.Is(err, fault.Unauthenticated) {
				t.Errorf("%s, %s: %v, %v", name, what, all, err)
			}
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("%s: error has %d bytes", what, len(err.Error()))
			}
		}
	}
	_, err = v.VerifyJWT(t.Context(), methods(p)["fixed"], "bad", now)
	if want := "unable to verify signature of JWT token: error verifying token signature: go-jose/go-jose: compact JWS format must have three parts"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestLeewaysCanBeSetAndSwitchedOff(t *testing.T) {
	t.Parallel()
	p := start(t)
	v := provider.New(nil)
	now := time.Now()
	for _, test := range []struct {
		leeway  time.Duration
		late    time.Duration
		refused bool
	}{{0, 59 * time.Second, false}, {0, 61 * time.Second, true}, {-1, time.Second, true}, {-1, -5 * time.Second, false}, {10 * time.Minute, 9 * time.Minute, false}} {
		c := methods(p)["fixed"]
		c.ClockSkewLeeway = test.leeway
		_, err := v.VerifyJWT(t.Context(), c, p.Token(p.Claims(map[string]any{"exp": now.Add(-test.late).Unix(), "iat": now.Add(-time.Hour).Unix(), "nbf": now.Add(-time.Hour).Unix()})), now.Truncate(time.Second))
		if errors.Is(err, fault.Unauthenticated) != test.refused {
			t.Errorf("%v: %v", test, err)
		}
	}
	c := methods(p)["fixed"]
	c.NotBeforeLeeway = time.Minute
	if _, err := v.VerifyJWT(t.Context(), c, p.Token(p.Claims(map[string]any{"iat": nil, "nbf": nil})), now); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("a token with exp alone is valid before its leeway: %v", err)
	}
	c.ExpirationLeeway, c.ClockSkewLeeway = -1, -1
	if _, err := v.VerifyJWT(t.Context(), c, p.Token(p.Claims(map[string]any{"exp": nil, "iat": now.Add(-time.Second).Unix(), "nbf": nil})), now); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("a token without exp outlives its leeway: %v", err)
	}
}

func TestKeySetsIgnoreKeysThatCannotVerify(t *testing.T) {
	t.Parallel()
	p := start(t)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip(err) // the runtime refuses it
	}
	secret := []byte(strings.Repeat("k", 32))
	p.SetKeys(jose.JSONWebKey{Key: secret, KeyID: "oct"}, jose.JSONWebKey{Key: weak.Public(), KeyID: "weak"},
		jose.JSONWebKey{Key: p.RSA.Public(), KeyID: "enc", Use: "enc"}, jose.JSONWebKey{Key: p.EC.Public(), KeyID: "rs", Algorithm: "RS256"},
		jose.JSONWebKey{Key: p.RSA.Public(), KeyID: "ps", Algorithm: "PS256"})
	v := provider.New(nil)
	c := methods(p)["jwks"]
	for what, token := range map[string]string{
		"secret":    providertest.Sign(jose.HS256, secret, "oct", p.Claims(nil)),
		"weak":      providertest.Sign(jose.RS256, weak, "weak", p.Claims(nil)),
		"for use":   providertest.Sign(jose.RS256, p.RSA, "enc", p.Claims(nil)),
		"other alg": providertest.Sign(jose.ES256, p.EC, "rs", p.Claims(nil)),
		"pinned":    providertest.Sign(jose.RS256, p.RSA, "ps", p.Claims(nil)),
	} {
		if _, err := v.VerifyJWT(t.Context(), c, token, time.Now()); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestUnknownKeyIDsFetchSeldom(t *testing.T) {
	t.Parallel()
	p := start(t)
	v := provider.New(nil)
	c := methods(p)["jwks"]
	began := time.Now()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 50 {
				token := providertest.Sign(jose.ES256, p.EC, fmt.Sprintf("invented-%d-%d", i, n), p.Claims(nil))
				if _, err := v.VerifyJWT(t.Context(), c, token, time.Now()); !errors.Is(err, fault.Unauthenticated) {
					t.Errorf("%v", err)
				}
			}
		})
	}
	all.Wait()
	if n, most := p.Fetched.Load(), int64(time.Since(began)/(3*time.Second))+1; n > most {
		t.Errorf("%d fetches for 400 unknown key ids in %s", n, time.Since(began))
	}
	if _, err := v.VerifyJWT(t.Context(), c, p.Token(p.Claims(nil)), time.Now()); err != nil {
		t.Errorf("a known key after the flood: %v", err)
	}
}

func TestRotatedKeysAreFound(t *testing.T) {
	t.Parallel()
	p := start(t)
	v := provider.New(nil)
	c := methods(p)["jwks"]
	if _, err := v.VerifyJWT(t.Context(), c, p.Token(p.Claims(nil)), time.Now()); err != nil {
		t.Fatal(err)
	}
	p.SetKeys(jose.JSONWebKey{Key: p.EC.Public(), KeyID: "next"})
	next := providertest.Sign(jose.ES256, p.EC, "next", p.Claims(nil))
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, err := v.VerifyJWT(t.Context(), c, next, time.Now())
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("never found: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if _, err := v.VerifyJWT(t.Context(), c, p.Token(p.Claims(nil)), time.Now()); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("the key that was withdrawn: %v", err)
	}
}

func TestBadProvidersAreBounded(t *testing.T) {
	t.Parallel()
	for what, misbehave := range map[string]http.HandlerFunc{
		"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"trickles": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		},
		"10 GB": func(w http.ResponseWriter, _ *http.Request) {
			chunk := []byte(strings.Repeat(" ", 1<<20))
			for range 10 << 10 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		},
		"error":     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, strings.Repeat("secret", 1000), 500) },
		"no JSON":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"redirects": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) },
		"to http": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+r.Host+"/keys", http.StatusFound)
		},
		"many keys": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[` + strings.TrimSuffix(strings.Repeat(`{},`, 10000), ",") + `]}`))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			p.Misbehave(misbehave)
			v := provider.New(nil)
			v.Timeout = time.Second
			for name, c := range methods(p) {
				if name == "fixed" {
					continue
				}
				began := time.Now()
				_, err := v.VerifyJWT(t.Context(), c, p.Token(p.Claims(nil)), time.Now())
				if took := time.Since(began); err == nil || took > 30*time.Second {
					t.Errorf("%s: %v after %s", name, err, took)
				}
				if err != nil && (len(err.Error()) > 500 || !errors.Is(err, fault.Unavailable)) {
					t.Errorf("%s: %v", name, err)
				}
				began = time.Now()
				if _, err := v.VerifyJWT(t.Context(), c, p.Token(p.Claims(nil)), time.Now()); err == nil || time.Since(began) > time.Second && what != "redirects" {
					t.Errorf("%s, right after: %v after %s", name, err, time.Since(began))
				}
			}
			p.Misbehave(nil)
		})
	}
}

func TestAFalseIssuerIsNotDiscovered(t *testing.T) {
	t.Parallel()
	p, evil := start(t), start(t)
	evil.Misbehave(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"issuer":"` + p.URL + `","jwks_uri":"` + p.URL + `/keys"}`))
	})
	c := &api.ACLAuthMethodConfig{OIDCDiscoveryURL: evil.URL, DiscoveryCaPem: []string{evil.CA()}}
	if _, err := provider.New(nil).VerifyJWT(t.Context(), c, p.Token(p.Claims(nil)), time.Now()); err == nil {
		t.Error("the document of another issuer was accepted")
	}
	c.DiscoveryCaPem = nil
	if _, err := provider.New(nil).VerifyJWT(t.Context(), c, p.Token(p.Claims(nil)), time.Now()); err == nil {
		t.Error("a provider with an unknown certificate was accepted")
	}
}
