package provider

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/login/fetch"
)

// Limits of a configuration.
const (
	entriesMax  = 64
	configBytes = 256 << 10
)

// Check rejects configurations that no login can succeed with. It does not reach the provider.
func (p *Providers) Check(kind string, c *api.ACLAuthMethodConfig) error {
	if c == nil {
		return fault.New(fault.Invalid, "missing auth method config")
	}
	errs := []error{checkSizes(c)}
	for _, a := range c.SigningAlgs {
		if !slices.Contains(Algorithms, jose.SignatureAlgorithm(a)) {
			errs = append(errs, fmt.Errorf("signing algorithm %q is not supported: %v are", a, Algorithms))
		}
	}
	for _, ca := range append(one(c.JWKSCACert), c.DiscoveryCaPem...) {
		_, err := fetch.CertPool([]string{ca})
		errs = append(errs, err)
	}
	switch kind {
	case api.AuthMethodJWT:
		errs = append(errs, checkJWT(c)...)
	case api.AuthMethodOIDC:
		errs = append(errs, p.checkOIDC(c)...)
	}
	return fault.Wrap(fault.Invalid, errors.Join(errs...))
}

func checkSizes(c *api.ACLAuthMethodConfig) error {
	size := len(c.JWKSURL) + len(c.OIDCDiscoveryURL) + len(c.OIDCClientID) + len(c.OIDCClientSecret) + len(c.JWKSCACert)
	for name, list := range map[string][]string{
		"JWTValidationPubKeys": c.JWTValidationPubKeys, "OIDCScopes": c.OIDCScopes, "BoundAudiences": c.BoundAudiences,
		"BoundIssuer": c.BoundIssuer, "AllowedRedirectURIs": c.AllowedRedirectURIs, "DiscoveryCaPem": c.DiscoveryCaPem, "SigningAlgs": c.SigningAlgs,
	} {
		if len(list) > entriesMax {
			return fmt.Errorf("%s has %d entries; at most %d are allowed", name, len(list), entriesMax)
		}
		for _, text := range list {
			size += len(text)
		}
	}
	if size > configBytes {
		return fmt.Errorf("the config has %d bytes; at most %d are allowed", size, configBytes)
	}
	return nil
}

// checkURL accepts absolute http and https URLs.
func checkURL(what, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("%s is no URL such as https://host/path", what)
	}
	return nil
}

func checkJWT(c *api.ACLAuthMethodConfig) (errs []error) {
	sources := 0
	if len(c.JWTValidationPubKeys) > 0 {
		sources++
		for _, text := range c.JWTValidationPubKeys {
			_, err := parsePublicKey(text)
			errs = append(errs, err)
		}
	}
	if c.JWKSURL != "" {
		sources++
		errs = append(errs, checkURL("JWKSURL", c.JWKSURL))
	}
	if c.OIDCDiscoveryURL != "" {
		sources++
		errs = append(errs, checkURL("OIDCDiscoveryURL", c.OIDCDiscoveryURL))
	}
	if sources != 1 {
		errs = append(errs, errors.New("a JWT auth method needs exactly one of JWTValidationPubKeys, JWKSURL and OIDCDiscoveryURL"))
	}
	return errs
}

func (p *Providers) checkOIDC(c *api.ACLAuthMethodConfig) (errs []error) {
	if c.OIDCDiscoveryURL == "" {
		errs = append(errs, errors.New("missing OIDCDiscoveryURL"))
	} else {
		errs = append(errs, checkURL("OIDCDiscoveryURL", c.OIDCDiscoveryURL))
	}
	if c.OIDCClientID == "" {
		errs = append(errs, errors.New("missing OIDCClientID"))
	}
	for _, uri := range c.AllowedRedirectURIs {
		if u, err := url.Parse(uri); err != nil || u.Scheme == "" || u.Host == "" || u.Fragment != "" || strings.Contains(uri, "#") {
			errs = append(errs, fmt.Errorf("allowed redirect URI %q is not absolute, or has a fragment", uri))
		}
	}
	if c.OIDCClientAssertion != nil {
		_, err := p.signer(c)
		errs = append(errs, err)
	}
	return errs
}

// RedirectAllowed reports whether a login may end at a URI: it is one of the allowed ones, or differs from one with a loopback
// host in the port only, because programs of the command line listen at any free port (RFC 8252, section 7.3).
func RedirectAllowed(c *api.ACLAuthMethodConfig, uri string) bool {
	if slices.Contains(c.AllowedRedirectURIs, uri) {
		return true
	}
	got, err := url.Parse(uri)
	if err != nil || got.Scheme != "http" || !loopback(got.Hostname()) || got.User != nil || strings.Contains(uri, "#") {
		return false
	}
	return slices.ContainsFunc(c.AllowedRedirectURIs, func(allowed string) bool {
		want, err := url.Parse(allowed)
		if err != nil || want.Hostname() != got.Hostname() {
			return false
		}
		other := *got
		other.Host = want.Host
		return other.String() == want.String()
	})
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
