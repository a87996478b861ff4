package api

// RootKeyState is the use of a root key.
type RootKeyState string

// States of root keys.
const (
	// RootKeyActive is the key that signs and encrypts. At most one key is active.
	RootKeyActive RootKeyState = "active"
	// RootKeyInactive is a key that only verifies and decrypts data that it signed and encrypted before.
	RootKeyInactive RootKeyState = "inactive"
	// RootKeyRekeying is a former active key while data that it encrypted is encrypted with the active one.
	RootKeyRekeying RootKeyState = "rekeying"
	// RootKeyPrepublished is a key that becomes active at [RootKeyMeta.PublishTime]; its public half is published already.
	RootKeyPrepublished RootKeyState = "prepublished"
)

// EncryptionAES256GCM is the algorithm that data is encrypted with.
const EncryptionAES256GCM = "aes256-gcm"

// RootKeyMeta is the public metadata of a root key.
type RootKeyMeta struct {
	KeyID     string `msg:",omitempty"`
	Algorithm string `msg:",omitempty"`
	// CreateTime is in Unix nanoseconds.
	CreateTime  int64        `msg:",omitempty"`
	CreateIndex uint64       `msg:",omitempty"`
	ModifyIndex uint64       `msg:",omitempty"`
	State       RootKeyState `msg:",omitempty"`
	// PublishTime is the time at which a prepublished key becomes active, in Unix nanoseconds; 0 for all other keys.
	PublishTime int64 `msg:",omitempty"`
}

// RootKey is the stored record of a key of the cluster.
type RootKey struct {
	RootKeyMeta
	// ActiveTime and RetireTime are the times at which the key became the active one and ceased to be it, in Unix nanoseconds.
	ActiveTime int64 `msg:",omitempty"`
	RetireTime int64 `msg:",omitempty"`
	// Public is the PKIX form of the public key that verifies this key's signatures.
	Public []byte `msg:",omitempty"`
	// PublicEd25519 is the raw Ed25519 public key that verifies this key's EdDSA signatures.
	PublicEd25519 []byte `msg:",omitempty"`
	// Wrapped is the secret part, encrypted with the wrapping key, which the log does not contain in clear.
	Wrapped []byte `msg:",omitempty" json:"-" secret:"true"`
	// External are copies of the wrapping key, each encrypted by an external service.
	External []*RootKeyExternal `msg:",omitempty" json:"-"`
}

// RootKeyExternal is the wrapping key of a root key as an external service encrypted it.
type RootKeyExternal struct {
	// Provider is the keyring block of the configuration.
	Provider string `msg:",omitempty"`
	Wrapped  []byte `msg:",omitempty" json:"-" secret:"true"`
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
	// N and E are the modulus and the exponent of an RSA key in unpadded base64url.
	N string `msg:",omitempty" json:"n,omitempty"`
	E string `msg:",omitempty" json:"e,omitempty"`
	// Crv and X are the curve and the public key of an Ed25519 key (RFC 8037).
	Crv string `msg:",omitempty" json:"crv,omitempty"`
	X   string `msg:",omitempty" json:"x,omitempty"`
}

// JSONWebKeysResponse contains the public keys that verify the cluster's signatures.
type JSONWebKeysResponse struct {
	Keys      []*JSONWebKey `msg:",omitempty" json:"keys"`
	QueryMeta `json:"-"`
}

// RootKeyRotateRequest creates a new root key.
type RootKeyRotateRequest struct {
	Algorithm string `msg:",omitempty"`
	// Full is accepted; every rotation encrypts all data with the new key.
	Full bool `msg:",omitempty"`
	// PublishTime is when the new key becomes active, in Unix nanoseconds; 0 is immediately.
	PublishTime int64 `msg:",omitempty"`
	WriteRequest
}

// RootKeyRotateResponse is the new key.
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

// RootKeyUnlockRequest requests from another server the secret that unwraps a root key.
type RootKeyUnlockRequest struct {
	KeyID string `msg:",omitempty"`
}

// RootKeyUnlockResponse contains the secret that unwraps a root key.
type RootKeyUnlockResponse struct {
	Unlock []byte `msg:",omitempty" secret:"true"`
}
