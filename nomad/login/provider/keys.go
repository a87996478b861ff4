package provider

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/login/fetch"
)

// Limits of keys.
const (
	keysMax     = 64
	keyBytes    = 16 << 10
	rsaBitsMin  = 2048
	rsaBitsMax  = 8192
	triedKeyMax = 16
)

// algorithmsOf returns the algorithms that a key can verify; none for keys that are not used.
func algorithmsOf(key any) []jose.SignatureAlgorithm {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n >= rsaBitsMin && n <= rsaBitsMax && k.E < 1<<31 {
			return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}
		}
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256():
			return []jose.SignatureAlgorithm{jose.ES256}
		case elliptic.P384():
			return []jose.SignatureAlgorithm{jose.ES384}
		case elliptic.P521():
			return []jose.SignatureAlgorithm{jose.ES512}
		}
	case ed25519.PublicKey:
		return []jose.SignatureAlgorithm{jose.EdDSA}
	}
	return nil
}

// parsePublicKey reads a public key or a certificate in PEM.
func parsePublicKey(text string) (any, error) {
	if len(text) > keyBytes {
		return nil, fault.New(fault.Invalid, "a key has %d bytes; at most %d are allowed", len(text), keyBytes)
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, fault.New(fault.Invalid, "a key is not in PEM format")
	}
	var key any
	var err error
	switch block.Type {
	case "CERTIFICATE":
		var c *x509.Certificate
		if c, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = c.PublicKey
		}
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	default:
		return nil, fault.New(fault.Invalid, "a PEM block of type %q is no public key", block.Type)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "a public key cannot be read: %w", err)
	}
	if algorithmsOf(key) == nil {
		return nil, fault.New(fault.Invalid, "a public key is not supported: RSA with %d to %d bits, P-256, P-384, P-521 and Ed25519 are", rsaBitsMin, rsaBitsMax)
	}
	return key, nil
}

// keySet is a set of keys that verify signatures.
type keySet interface {
	// keys returns the candidates for a key id and an algorithm; all keys of the algorithm for an empty id.
	keys(ctx context.Context, kid string, alg jose.SignatureAlgorithm) ([]any, error)
}

// fixedKeys are keys of the configuration; tokens may have any key id.
type fixedKeys []any

func (f fixedKeys) keys(_ context.Context, _ string, alg jose.SignatureAlgorithm) ([]any, error) {
	var out []any
	for _, k := range f {
		if slices.Contains(algorithmsOf(k), alg) {
			out = append(out, k)
		}
	}
	return out, nil
}

// remoteKeys are the keys of a JWKS URL.
type remoteKeys struct{ fetch.Kept[[]jose.JSONWebKey] }

func newRemoteKeys(client *http.Client, url string) *remoteKeys {
	r := &remoteKeys{}
	r.What, r.Timeout = "fetch the key set", client.Timeout
	r.Fetch = func(ctx context.Context) ([]jose.JSONWebKey, error) {
		body, err := fetch.Get(ctx, client, url)
		if err != nil {
			return nil, err
		}
		return parseKeySet(body)
	}
	return r
}

// parseKeySet reads the usable keys of a JWKS. Keys that are for encryption, secret or of an unknown kind are left out.
func parseKeySet(body []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("the reply is no JSON Web Key Set: %w", err)
	}
	if len(set.Keys) > keysMax {
		return nil, fmt.Errorf("the key set has %d keys; at most %d are read", len(set.Keys), keysMax)
	}
	var out []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && (k.Use == "" || k.Use == "sig") && k.IsPublic() && algorithmsOf(k.Key) != nil {
			out = append(out, k)
		}
	}
	return out, nil
}

func (r *remoteKeys) keys(ctx context.Context, kid string, alg jose.SignatureAlgorithm) ([]any, error) {
	fitting := func(all []jose.JSONWebKey) (out []any) {
		for _, k := range all {
			named := kid == "" || k.KeyID == "" || k.KeyID == kid
			if named && (k.Algorithm == "" || k.Algorithm == string(alg)) && slices.Contains(algorithmsOf(k.Key), alg) {
				out = append(out, k.Key)
			}
		}
		return out
	}
	all, err := r.Get(ctx, func(v []jose.JSONWebKey) bool { return len(fitting(v)) > 0 })
	return fitting(all), err
}
