package api

// RootKeyState is the use of a root key.
type RootKeyState string

// States of root keys.
const (
	// RootKeyActive signs and encrypts. There is one at most.
	RootKeyActive RootKeyState = "active"
	// RootKeyInactive only verifies and decrypts what it once signed and encrypted.
	RootKeyInactive RootKeyState = "inactive"
)

// EncryptionAES256GCM is the algorithm that data is encrypted with.
const EncryptionAES256GCM = "aes256-gcm"

// RootKeyMeta is what everybody may know of a root key.
type RootKeyMeta struct {
	KeyID     string `msg:",omitempty"`
	Algorithm string `msg:",omitempty"`
	// CreateTime is in nanoseconds since 1970.
	CreateTime  int64        `msg:",omitempty"`
	CreateIndex uint64       `msg:",omitempty"`
	ModifyIndex uint64       `msg:",omitempty"`
	State       RootKeyState `msg:",omitempty"`
	// PublishTime is when a key that was made ahead becomes active; 0 for all others.
	PublishTime int64 `msg:",omitempty"`
}

// RootKey is a key of the cluster as the state holds it.
type RootKey struct {
	RootKeyMeta
	// Public is the PKIX form of the public key that verifies what this one signed.
	Public []byte `msg:",omitempty"`
	// Wrapped is the secret part, encrypted by a key that only the servers' data directories hold.
	Wrapped []byte `msg:",omitempty" json:"-"`
}

// Redacted returns a copy without the secret part.
func (k *RootKey) Redacted() *RootKey {
	c := *k
	c.Wrapped = nil
	return &c
}

// RootKeyListResponse lists root keys.
type RootKeyListResponse struct {
	Keys []*RootKeyMeta `msg:",omitempty"`
	QueryMeta
}

// JSONWebKey is a public key in the form of RFC 7517.
type JSONWebKey struct {
	Use string `msg:",omitempty" json:"use"`
	Kty string `msg:",omitempty" json:"kty"`
	Kid string `msg:",omitempty" json:"kid"`
	Alg string `msg:",omitempty" json:"alg"`
	// N and E are the modulus and the exponent in unpadded base64url.
	N string `msg:",omitempty" json:"n"`
	E string `msg:",omitempty" json:"e"`
}

// JSONWebKeysResponse are the public keys that verify what the cluster signed.
type JSONWebKeysResponse struct {
	Keys      []*JSONWebKey `msg:",omitempty" json:"keys"`
	QueryMeta `json:"-"`
}

// RootKeyRotateRequest makes a new active key.
type RootKeyRotateRequest struct {
	Algorithm   string `msg:",omitempty"`
	Full        bool   `msg:",omitempty"`
	PublishTime int64  `msg:",omitempty"`
	WriteRequest
}

// RootKeyRotateResponse is the new active key.
type RootKeyRotateResponse struct {
	Key *RootKeyMeta `msg:",omitempty"`
	WriteMeta
}

// RootKeyDeleteRequest deletes a key.
type RootKeyDeleteRequest struct {
	KeyID string `msg:",omitempty"`
	Force bool   `msg:",omitempty"`
	WriteRequest
}

// RootKeyUnlockRequest asks another server for what unwraps a root key.
type RootKeyUnlockRequest struct {
	KeyID string `msg:",omitempty"`
}

// RootKeyUnlockResponse is what unwraps a root key. It is a secret.
type RootKeyUnlockResponse struct {
	Unlock []byte `msg:",omitempty"`
}
