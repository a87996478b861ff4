package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/identity"
)

const (
	wrappingBytes = 32
	dataBytes     = 32
	signingBits   = 2048
)

// Secret is the secret half of a root key.
type Secret struct {
	// KeyID is the id of the root key.
	KeyID string
	// Sign signs tokens with RS256.
	Sign *rsa.PrivateKey
	// SignEd25519 signs tokens with EdDSA; nil for a key that an earlier version made.
	SignEd25519 ed25519.PrivateKey
	// Data encrypts data with AES-256-GCM.
	Data []byte
}

// sealed is a Secret as it is wrapped.
type sealed struct{ Sign, Data, Seed []byte }

// newKey makes a root key and its wrapping key.
func newKey(now time.Time) (key *api.RootKey, wrapping []byte, err error) {
	sign, err := rsa.GenerateKey(rand.Reader, signingBits)
	if err != nil {
		return nil, nil, fault.New(fault.Internal, "make a signing key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(sign.Public())
	if err != nil {
		return nil, nil, fault.New(fault.Internal, "encode a public key: %w", err)
	}
	edPublic, edPrivate, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fault.New(fault.Internal, "make a signing key: %w", err)
	}
	secret, err := json.Marshal(sealed{x509.MarshalPKCS1PrivateKey(sign), random(dataBytes), edPrivate.Seed()})
	if err != nil {
		return nil, nil, fault.New(fault.Internal, "encode a root key: %w", err)
	}
	key = &api.RootKey{Public: public, PublicEd25519: edPublic, RootKeyMeta: api.RootKeyMeta{
		KeyID: uuid.NewString(), Algorithm: api.EncryptionAES256GCM, State: api.RootKeyActive, CreateTime: now.UnixNano(),
	}}
	wrapping = random(wrappingBytes)
	aead, err := cipherOf(wrapping)
	if err != nil {
		return nil, nil, err
	}
	key.Wrapped = aead.Seal(nil, nil, secret, []byte(key.KeyID))
	return key, wrapping, nil
}

// open decrypts the secret half of a root key.
func open(key *api.RootKey, wrapping []byte) (*Secret, error) {
	aead, err := cipherOf(wrapping)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, nil, key.Wrapped, []byte(key.KeyID))
	if err != nil {
		return nil, fault.New(fault.Invalid, "the wrapping key does not decrypt it: one of them was changed")
	}
	var s sealed
	if err := json.Unmarshal(plain, &s); err != nil {
		return nil, fault.New(fault.Invalid, "root key %s: %w", key.KeyID, err)
	}
	sign, err := x509.ParsePKCS1PrivateKey(s.Sign)
	if err != nil {
		return nil, fault.New(fault.Invalid, "root key %s: %w", key.KeyID, err)
	}
	out := &Secret{KeyID: key.KeyID, Sign: sign, Data: s.Data}
	if len(s.Seed) == ed25519.SeedSize {
		out.SignEd25519 = ed25519.NewKeyFromSeed(s.Seed)
	}
	return out, nil
}

func cipherOf(wrapping []byte) (cipher.AEAD, error) {
	if len(wrapping) != wrappingBytes {
		return nil, fault.New(fault.Invalid, "a wrapping key has %d bytes, not %d", len(wrapping), wrappingBytes)
	}
	block, err := aes.NewCipher(wrapping)
	if err != nil {
		return nil, fault.New(fault.Internal, "AES: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fault.New(fault.Internal, "GCM: %w", err)
	}
	return aead, nil
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// rsaKey is the RSA public key of a row.
func rsaKey(k *api.RootKey) (*rsa.PublicKey, error) {
	public, err := x509.ParsePKIXPublicKey(k.Public)
	if err != nil {
		return nil, fault.New(fault.Internal, "root key %s: %w", k.KeyID, err)
	}
	r, ok := public.(*rsa.PublicKey)
	if !ok {
		return nil, fault.New(fault.Internal, "root key %s is a %T", k.KeyID, public)
	}
	return r, nil
}

// webKeys are the public halves as other programs verify with them.
func webKeys(k *api.RootKey) ([]*api.JSONWebKey, error) {
	r, err := rsaKey(k)
	if err != nil {
		return nil, err
	}
	keys := []*api.JSONWebKey{{
		Use: "sig", Kty: "RSA", Kid: k.KeyID, Alg: "RS256",
		N: base64.RawURLEncoding.EncodeToString(r.N.Bytes()),
		E: base64.RawURLEncoding.EncodeToString(big.NewInt(int64(r.E)).Bytes()),
	}}
	if len(k.PublicEd25519) > 0 {
		keys = append(keys, &api.JSONWebKey{
			Use: "sig", Kty: "OKP", Kid: k.KeyID + identity.Ed25519Suffix, Alg: "EdDSA",
			Crv: "Ed25519", X: base64.RawURLEncoding.EncodeToString(k.PublicEd25519),
		})
	}
	return keys, nil
}
