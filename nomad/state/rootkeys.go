package state

import (
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

// RootKey returns the root key, or nil.
func (t *Txn) RootKey(id string) *api.RootKey { return rootKeys.get(t, id) }

// RootKeys lists all root keys by id.
func (t *Txn) RootKeys() iter.Seq[*api.RootKey] { return rootKeys.all(t) }

// ActiveRootKey is the root key that signs and encrypts; nil before the first.
func (t *Txn) ActiveRootKey() *api.RootKey {
	for k := range t.RootKeys() {
		if k.State == api.RootKeyActive {
			return k
		}
	}
	return nil
}

// PutRootKey stores the root key.
func (t *Txn) PutRootKey(k *api.RootKey) { rootKeys.put(t, k) }

// DeleteRootKey deletes the root key and reports whether there was one.
func (t *Txn) DeleteRootKey(id string) bool { return rootKeys.remove(t, t.RootKey(id)) }
