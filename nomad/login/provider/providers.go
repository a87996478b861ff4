package provider

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/login/fetch"
)

// sourcesMax limits how many providers are kept.
const sourcesMax = 64

// Providers keeps what was fetched from the providers of all auth methods. Its methods may be called by several goroutines.
type Providers struct {
	// ClusterKey returns the key of the cluster that signs client assertions.
	ClusterKey func() (*Key, error)
	// Timeout limits one request to a provider; [New] sets it to 10 seconds.
	Timeout time.Duration

	mu      sync.Mutex
	sources map[string]*source
}

// source is one provider, by its URL and the certificates that it is trusted with.
type source struct {
	client *http.Client
	used   time.Time
	// keys is the key set of a JWKS URL, discovered the document of an issuer.
	keys       *remoteKeys
	discovered *fetch.Kept[*discovered]
}

// discovered is what an issuer publishes.
type discovered struct {
	*oidc.Provider
	keys *remoteKeys
	// IssInResponse is set when the issuer names itself in the responses of logins (RFC 9207).
	IssInResponse bool     `json:"authorization_response_iss_parameter_supported"`
	TokenAuth     []string `json:"token_endpoint_auth_methods_supported"`
	JWKS          string   `json:"jwks_uri"`
}

// New returns an empty set of providers.
func New(clusterKey func() (*Key, error)) *Providers {
	return &Providers{ClusterKey: clusterKey, Timeout: fetch.Timeout, sources: map[string]*source{}}
}

// source returns the provider of a URL, and drops the one that was not used for the longest time when there are too many.
func (p *Providers) source(kind, url string, pem []string, begin func(*source)) (*source, error) {
	key := strings.Join(append([]string{kind, url}, pem...), "\x00")
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sources[key]
	if s == nil {
		client, err := fetch.NewClient(pem, p.Timeout)
		if err != nil {
			return nil, err
		}
		s = &source{client: client}
		begin(s)
		if len(p.sources) >= sourcesMax {
			p.evict()
		}
		p.sources[key] = s
	}
	s.used = time.Now()
	return s, nil
}

func (p *Providers) evict() {
	oldest := ""
	for key, s := range p.sources {
		if oldest == "" || s.used.Before(p.sources[oldest].used) {
			oldest = key
		}
	}
	p.sources[oldest].client.CloseIdleConnections()
	delete(p.sources, oldest)
}

// issuer returns the discovery document of the method's provider.
func (p *Providers) issuer(ctx context.Context, c *api.ACLAuthMethodConfig) (*discovered, *http.Client, error) {
	s, err := p.source("oidc", c.OIDCDiscoveryURL, c.DiscoveryCaPem, func(s *source) {
		s.discovered = &fetch.Kept[*discovered]{What: "discover the OIDC provider", Timeout: p.Timeout, Fetch: func(ctx context.Context) (*discovered, error) {
			return discover(ctx, s.client, c.OIDCDiscoveryURL)
		}}
	})
	if err != nil {
		return nil, nil, err
	}
	d, err := s.discovered.Get(ctx, func(*discovered) bool { return true })
	if err == nil && d == nil {
		err = fault.New(fault.Unavailable, "the OIDC provider is not discovered yet; retry later")
	}
	return d, s.client, err
}

func discover(ctx context.Context, client *http.Client, url string) (*discovered, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, client), issuerOf(url))
	if err != nil {
		return nil, err
	}
	d := &discovered{Provider: found}
	if err := found.Claims(d); err != nil {
		return nil, err
	}
	if err := checkURL("jwks_uri of the provider", d.JWKS); err != nil {
		return nil, err
	}
	d.keys = newRemoteKeys(client, d.JWKS)
	return d, nil
}

// issuerOf returns the issuer of a discovery URL, which may be written with the path of the discovery document.
func issuerOf(url string) string { return strings.TrimSuffix(url, "/.well-known/openid-configuration") }

// VerifyJWT verifies a token of a JWT method and returns its claims, with numbers as [encoding/json.Number].
func (p *Providers) VerifyJWT(ctx context.Context, c *api.ACLAuthMethodConfig, token string, now time.Time) (map[string]any, error) {
	var set keySet
	var fixed fixedKeys
	want := expected{issuers: c.BoundIssuer, audiences: c.BoundAudiences}
	switch {
	case len(token) > TokenBytes:
		return nil, unverified(fault.New(fault.Invalid, "the token has %d bytes; at most %d are read", len(token), TokenBytes))
	case c.JWKSURL != "":
		s, err := p.source("jwks", c.JWKSURL, one(c.JWKSCACert), func(s *source) { s.keys = newRemoteKeys(s.client, c.JWKSURL) })
		if err != nil {
			return nil, err
		}
		set = s.keys
	case c.OIDCDiscoveryURL != "":
		d, _, err := p.issuer(ctx, c)
		if err != nil {
			return nil, err
		}
		set = d.keys
		if len(want.issuers) == 0 {
			want.issuers = []string{issuerOf(c.OIDCDiscoveryURL)}
		}
	default:
		for _, text := range c.JWTValidationPubKeys {
			k, err := parsePublicKey(text)
			if err != nil {
				return nil, err
			}
			fixed = append(fixed, k)
		}
		set = fixed
	}
	return verify(ctx, token, algorithms(c, fixed), set, c, want, now)
}

func one(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}
