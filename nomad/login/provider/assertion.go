package provider

import (
	"crypto"
	"crypto/sha1" //nolint:gosec // x5t is a SHA-1 thumbprint by its definition (RFC 7515)
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Sources of the key that signs client assertions, and the headers that name a private key.
const (
	keySourceCluster      = "nomad"
	keySourcePrivateKey   = "private_key"
	keySourceClientSecret = "client_secret"

	headerKid     = "kid"
	headerX5t     = "x5t"
	headerX5tS256 = "x5t#S256"
)

// assertionLife is how long a client assertion is valid.
const assertionLife = 5 * time.Minute

// hmacBytes is the least length of a client secret that signs with HS256.
const hmacBytes = 32

// Key is a private key and its id.
type Key struct {
	ID      string
	Private crypto.Signer
}

// signer returns what signs the client assertions of a method. The texts of its errors contain no part of a key.
func (p *Providers) signer(c *api.ACLAuthMethodConfig) (jose.Signer, error) {
	a := c.OIDCClientAssertion
	options := (&jose.SignerOptions{}).WithType("JWT")
	for name, value := range a.ExtraHeaders {
		if slices.Contains([]string{"alg", "kid", "x5t", "x5t#S256", "jwk", "crit", "b64", "typ"}, name) {
			return nil, fault.New(fault.Invalid, "OIDCClientAssertion: header %q cannot be set with ExtraHeaders", name)
		}
		options = options.WithHeader(jose.HeaderKey(name), value)
	}
	alg, key := jose.SignatureAlgorithm(a.KeyAlgorithm), any(nil)
	var fits []jose.SignatureAlgorithm
	switch a.KeySource {
	case keySourceClientSecret:
		if len(c.OIDCClientSecret) < hmacBytes {
			return nil, fault.New(fault.Invalid, "OIDCClientAssertion: key source client_secret needs an OIDCClientSecret of at least %d bytes", hmacBytes)
		}
		key, fits = []byte(c.OIDCClientSecret), []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512}
	case keySourceCluster:
		if p.ClusterKey == nil {
			return nil, fault.New(fault.Invalid, "OIDCClientAssertion: key source nomad is not available here; use private_key or client_secret")
		}
		k, err := p.ClusterKey()
		if err != nil {
			return nil, fault.New(fault.Unavailable, "OIDCClientAssertion: the key of the cluster is not available: %w", err)
		}
		options = options.WithHeader(headerKid, k.ID)
		key, fits = k.Private, algorithmsOf(k.Private.Public())
	case keySourcePrivateKey:
		if a.PrivateKey == nil {
			return nil, fault.New(fault.Invalid, "OIDCClientAssertion: key source private_key needs a PrivateKey")
		}
		k, err := readPrivateKey(a.PrivateKey)
		if err != nil {
			return nil, err
		}
		header, id, err := keyHeader(a.PrivateKey)
		if err != nil {
			return nil, err
		}
		options = options.WithHeader(jose.HeaderKey(header), id)
		key, fits = k, algorithmsOf(k.Public())
	default:
		return nil, fault.New(fault.Invalid, "OIDCClientAssertion: key source %q is unknown: use nomad, private_key or client_secret", a.KeySource)
	}
	if len(fits) == 0 {
		return nil, fault.New(fault.Invalid, "OIDCClientAssertion: keys of this kind are not supported")
	}
	if alg == "" {
		alg = fits[0]
	}
	if !slices.Contains(fits, alg) {
		return nil, fault.New(fault.Invalid, "OIDCClientAssertion: the key cannot sign with %q; it can with %v", alg, fits)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	if err != nil {
		return nil, fault.New(fault.Invalid, "OIDCClientAssertion: the key cannot sign with %s", alg)
	}
	return s, nil
}

// assertion makes a client assertion (RFC 7523).
func (p *Providers) assertion(c *api.ACLAuthMethodConfig, now time.Time) (string, error) {
	s, err := p.signer(c)
	if err != nil {
		return "", err
	}
	audience := c.OIDCClientAssertion.Audience
	if len(audience) == 0 {
		audience = []string{c.OIDCDiscoveryURL}
	}
	return jwt.Signed(s).Claims(jwt.Claims{
		Issuer: c.OIDCClientID, Subject: c.OIDCClientID, Audience: audience, ID: uuid.NewString(),
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(assertionLife)),
	}).Serialize()
}

// block returns the PEM block of a text or of a file; exactly one of them must be given.
func block(what, text, file string) (*pem.Block, error) {
	if (text == "") == (file == "") {
		return nil, fault.New(fault.Invalid, "OIDCClientAssertion: exactly one of %s and %sFile is needed", what, what)
	}
	if file != "" {
		info, err := os.Stat(file)
		if err != nil || !info.Mode().IsRegular() || info.Size() > keyBytes {
			return nil, fault.New(fault.Invalid, "OIDCClientAssertion: %sFile %q is no readable file of at most %d bytes on this server", what, file, keyBytes)
		}
		body, err := os.ReadFile(file)
		if err != nil {
			return nil, fault.New(fault.Invalid, "OIDCClientAssertion: %sFile %q cannot be read on this server", what, file)
		}
		text = string(body)
	}
	b, _ := pem.Decode([]byte(text))
	if b == nil || len(text) > keyBytes {
		return nil, fault.New(fault.Invalid, "OIDCClientAssertion: %s is not in PEM format, or longer than %d bytes", what, keyBytes)
	}
	return b, nil
}

func readPrivateKey(k *api.OIDCClientAssertionKey) (crypto.Signer, error) {
	b, err := block("PemKey", k.PemKey, k.PemKeyFile)
	if err != nil {
		return nil, err
	}
	if key, err := x509.ParsePKCS1PrivateKey(b.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(b.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(b.Bytes)
	if s, ok := key.(crypto.Signer); ok && err == nil {
		return s, nil
	}
	return nil, fault.New(fault.Invalid, "OIDCClientAssertion: PemKey is no private key without a password")
}

// keyHeader returns the header that names the key, and its value.
func keyHeader(k *api.OIDCClientAssertionKey) (header, id string, err error) {
	withCert := k.PemCert != "" || k.PemCertFile != ""
	header = k.KeyIDHeader
	if header == "" {
		if header = headerKid; withCert {
			header = headerX5tS256
		}
	}
	switch header {
	case headerKid:
		if k.KeyID == "" {
			return "", "", fault.New(fault.Invalid, "OIDCClientAssertion: PrivateKey needs a KeyID, or a certificate with the key id header x5t#S256")
		}
		return header, k.KeyID, nil
	case headerX5t, headerX5tS256:
	default:
		return "", "", fault.New(fault.Invalid, "OIDCClientAssertion: key id header %q is unknown: use kid, x5t or x5t#S256", header)
	}
	b, err := block("PemCert", k.PemCert, k.PemCertFile)
	if err != nil {
		return "", "", err
	}
	if _, err := x509.ParseCertificate(b.Bytes); err != nil {
		return "", "", fault.New(fault.Invalid, "OIDCClientAssertion: PemCert is no certificate")
	}
	if header == headerX5t {
		sum := sha1.Sum(b.Bytes) //nolint:gosec // as above
		return header, base64.RawURLEncoding.EncodeToString(sum[:]), nil
	}
	sum := sha256.Sum256(b.Bytes)
	return header, base64.RawURLEncoding.EncodeToString(sum[:]), nil
}
