package keyring

import (
	"crypto/aes"
	"crypto/cipher"
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
)

const (
	unlockBytes = 32
	dataBytes   = 32
	signingBits = 2048
)

// Secret is the secret half of a root key.
type Secret struct {
	// KeyID is the id of the root key.
	KeyID string
	// Sign signs tokens.
	Sign *rsa.PrivateKey
	// Data encrypts data with AES-256-GCM.
	Data []byte
}

// sealed is a Secret as it is wrapped.
type sealed struct{ Sign, Data []byte }

// newKey makes a root key and what unwraps it.
func newKey(now time.Time) (key *api.RootKey, unlock []byte, err error) {
	sign, err := rsa.GenerateKey(rand.Reader, signingBits)
	if err != nil {
		return nil, nil, fault.New(fault.Internal, "make a signing key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(sign.Public())
	if err != nil {
		return nil, nil, fault.New(fault.Internal, "encode a public key: %w", err)
	}
	secret, err := json.Marshal(sealed{x509.MarshalPKCS1PrivateKey(sign), random(dataBytes)})
	if err != nil {
		return nil, nil, fault.New(fault.Internal, "encode a root key: %w", err)
	}
	key = &api.RootKey{Public: public, RootKeyMeta: api.RootKeyMeta{
		KeyID: uuid.NewString(), Algorithm: api.EncryptionAES256GCM, State: api.RootKeyActive, CreateTime: now.UnixNano(),
	}}
	unlock = random(unlockBytes)
	aead, err := cipherOf(unlock)
	if err != nil {
		return nil, nil, err
	}
	key.Wrapped = aead.Seal(nil, nil, secret, []byte(key.KeyID))
	return key, unlock, nil
}

// open unwraps the secret half of a root key.
func open(key *api.RootKey, unlock []byte) (*Secret, error) {
	aead, err := cipherOf(unlock)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, nil, key.Wrapped, []byte(key.KeyID))
	if err != nil {
		return nil, fault.New(fault.Invalid, "root key %s is not unwrapped by what this server has for it", key.KeyID)
	}
	var s sealed
	if err := json.Unmarshal(plain, &s); err != nil {
		return nil, fault.New(fault.Invalid, "root key %s: %w", key.KeyID, err)
	}
	sign, err := x509.ParsePKCS1PrivateKey(s.Sign)
	if err != nil {
		return nil, fault.New(fault.Invalid, "root key %s: %w", key.KeyID, err)
	}
	return &Secret{key.KeyID, sign, s.Data}, nil
}

func cipherOf(unlock []byte) (cipher.AEAD, error) {
	if len(unlock) != unlockBytes {
		return nil, fault.New(fault.Invalid, "what unwraps a root key has %d bytes, not %d", len(unlock), unlockBytes)
	}
	block, err := aes.NewCipher(unlock)
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

// webKey is the public half as other programs verify with it.
func webKey(k *api.RootKey) (*api.JSONWebKey, error) {
	public, err := x509.ParsePKIXPublicKey(k.Public)
	if err != nil {
		return nil, fault.New(fault.Internal, "root key %s: %w", k.KeyID, err)
	}
	r, ok := public.(*rsa.PublicKey)
	if !ok {
		return nil, fault.New(fault.Internal, "root key %s is a %T", k.KeyID, public)
	}
	return &api.JSONWebKey{
		Use: "sig", Kty: "RSA", Kid: k.KeyID, Alg: "RS256",
		N: base64.RawURLEncoding.EncodeToString(r.N.Bytes()),
		E: base64.RawURLEncoding.EncodeToString(big.NewInt(int64(r.E)).Bytes()),
	}, nil
}
