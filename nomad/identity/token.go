package identity

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Algorithm signs a token.
type Algorithm = jose.SignatureAlgorithm

// The algorithms of tokens.
const (
	EdDSA = jose.EdDSA
	RS256 = jose.RS256
)

var algorithms = []Algorithm{EdDSA, RS256}

// Ed25519Suffix follows the id of a root key in the kid of its Ed25519 key.
const Ed25519Suffix = "-ed25519"

// tokenBytes limits the size of a token.
const tokenBytes = 16 << 10

// Reasons why a token is refused that callers distinguish.
var (
	// ErrExpired is the refusal of a token that has expired and is valid otherwise.
	ErrExpired = fault.New(fault.Denied, "the token has expired")
	// ErrUnknownKey is the refusal of a token that no key of the cluster signed.
	ErrUnknownKey = fault.New(fault.Denied, "the token is signed with a key that this cluster does not have")
	// ErrBound is the refusal of the right secret of a node that has to show its identity.
	ErrBound = fault.New(fault.Denied, "the secret alone is not accepted")
)

// Key has the private keys of a root key. Ed25519 is nil for a root key that has none.
type Key struct {
	ID      string
	RSA     *rsa.PrivateKey
	Ed25519 ed25519.PrivateKey
}

// Config is what the package needs.
type Config struct {
	State *state.Store
	// Active returns the private keys of the active root key.
	Active func() (*Key, error)
	// Issuer is the URL of the cluster as an identity provider; it may be empty.
	Issuer string
	Region string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Service signs and verifies tokens.
type Service struct{ Config }

// New makes the service.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{Config: c}
}

// Sign signs claims with the active root key. It sets the claims iss, iat, nbf, exp and jti. With EdDSA, a root key without
// an Ed25519 key signs with RS256.
func (s *Service) Sign(_ context.Context, c *Claims, a Algorithm) (token, keyID string, err error) {
	key, err := s.Active()
	if err != nil {
		return "", "", err
	}
	kid, private := key.ID, crypto.Signer(key.RSA)
	if a == EdDSA && key.Ed25519 == nil {
		a = RS256
	}
	if a == EdDSA {
		kid, private = key.ID+Ed25519Suffix, key.Ed25519
	}
	now := s.Now()
	signed := *c
	signed.Issuer = s.Issuer
	signed.ID = cmp.Or(c.ID, uuid.NewString())
	signed.IssuedAt, signed.NotBefore = now.Unix(), now.Unix()
	if c.TTL > 0 {
		signed.Expiry = now.Add(c.TTL).Unix()
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: a, Key: jose.JSONWebKey{Key: private, KeyID: kid}}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", "", fault.New(fault.Internal, "root key %s cannot sign with %s: %w", key.ID, a, err)
	}
	body, err := signed.MarshalJSON()
	if err != nil {
		return "", "", fault.New(fault.Internal, "encode the claims of a token: %w", err)
	}
	object, err := signer.Sign(body)
	if err != nil {
		return "", "", fault.New(fault.Internal, "root key %s does not sign: %w", key.ID, err)
	}
	if token, err = object.CompactSerialize(); err != nil {
		return "", "", fault.New(fault.Internal, "encode a token: %w", err)
	}
	if len(token) > tokenBytes {
		return "", "", fault.New(fault.Invalid, "the token has %d bytes; at most %d are allowed: shorten the extra claims", len(token), tokenBytes)
	}
	*c = signed
	return token, key.ID, nil
}

// Verify checks the signature, the audience and the expiry of a token, and returns its claims and the id of the root key that
// signed it. With [ErrExpired] it returns both too, with [ErrUnknownKey] only the id.
func (s *Service) Verify(token, audience string) (c *Claims, keyID string, err error) {
	if len(token) > tokenBytes {
		return nil, "", fault.New(fault.Denied, "the token has %d bytes; at most %d are allowed", len(token), tokenBytes)
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return nil, "", fault.New(fault.Denied, "the token cannot be read: %w", err)
	}
	if !canonical(token) {
		return nil, "", fault.New(fault.Denied, "the token is not in the form in which it was signed")
	}
	header := parsed.Headers[0] // the compact form has one
	keyID, public, err := publicKey(s.State.Read(), header.KeyID, Algorithm(header.Algorithm))
	if err != nil {
		return nil, keyID, err
	}
	c = &Claims{}
	if err := parsed.Claims(public, c); err != nil {
		return nil, keyID, fault.New(fault.Denied, "the token is not valid: %w", err)
	}
	if err := c.fit(audience); err != nil {
		return nil, keyID, err
	}
	if c.Expiry != 0 && s.Now().Unix() >= c.Expiry {
		return c, keyID, ErrExpired
	}
	return c, keyID, nil
}

// canonical reports whether a token has the only text with its content: base64 decoders skip line breaks and spare bits. Callers
// remember the tokens that were verified.
func canonical(token string) bool {
	for part := range strings.SplitSeq(token, ".") {
		if _, err := base64.RawURLEncoding.Strict().DecodeString(part); err != nil || strings.ContainsAny(part, "\r\n") {
			return false
		}
	}
	return true
}

// publicKey returns the public key that a kid names.
func publicKey(tx *state.Txn, kid string, a Algorithm) (keyID string, public crypto.PublicKey, err error) {
	keyID, isEd := strings.CutSuffix(kid, Ed25519Suffix)
	k := tx.RootKey(keyID)
	switch {
	case keyID == "" || k == nil || isEd && len(k.PublicEd25519) != ed25519.PublicKeySize:
		return keyID, nil, ErrUnknownKey
	case isEd != (a == EdDSA):
		return keyID, nil, fault.New(fault.Denied, "the token is not valid: its key does not sign with %s", a)
	case isEd:
		return keyID, ed25519.PublicKey(k.PublicEd25519), nil
	}
	public, err = publicRSA(k)
	return keyID, public, err
}

func publicRSA(k *api.RootKey) (*rsa.PublicKey, error) {
	public, err := x509.ParsePKIXPublicKey(k.Public)
	if r, ok := public.(*rsa.PublicKey); ok {
		return r, nil
	}
	return nil, errors.Join(fault.New(fault.Internal, "root key %s has no RSA key", k.KeyID), err)
}

// IsToken reports whether a secret has the form of a token.
func IsToken(secret string) bool {
	return strings.HasPrefix(secret, "eyJ") && strings.Count(secret, ".") == 2
}
