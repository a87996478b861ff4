// Package secretstest has a keyring for tests.
package secretstest

import (
	"context"
	"crypto/sha256"
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/secrets"
)

// Keyring is a keyring of tests: the key with an id follows from the id.
type Keyring struct {
	mu      sync.Mutex
	active  string
	removed map[string]bool
}

// NewKeyring makes a keyring with an active key.
func NewKeyring(active string) *Keyring { return &Keyring{active: active, removed: map[string]bool{}} }

// Rotate makes another key the active one.
func (k *Keyring) Rotate(active string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active = active
}

// Remove forgets a key.
func (k *Keyring) Remove(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removed[id] = true
}

// DataKey is the active key.
func (k *Keyring) DataKey(context.Context) (id string, key []byte, err error) {
	k.mu.Lock()
	id = k.active
	k.mu.Unlock()
	key, err = k.DataKeyOf(id)
	return id, key, err
}

// DataKeyOf is the key with the id.
func (k *Keyring) DataKeyOf(id string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.removed[id] {
		return nil, fault.New(fault.Internal, "root key %s was removed: what it encrypted cannot be read", id)
	}
	key := sha256.Sum256([]byte(id))
	return key[:], nil
}

// NewBox makes a box with a keyring of its own and no variables.
func NewBox() *secrets.Box {
	return secrets.New(secrets.Config{Keys: NewKeyring("k1"), Variable: func(string, string) (map[string]string, error) { return nil, nil }})
}
