package keyring

import (
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000

// AddKey adds a root key that is active or prepublished.
type AddKey struct {
	Key *api.RootKey `msg:",omitempty"`
	// Replaces is the active key that the proposer read; empty for none. A prepublished key replaces none.
	Replaces string `msg:",omitempty"`
}

// ActivateKey makes a prepublished root key the active one.
type ActivateKey struct {
	KeyID string `msg:",omitempty"`
}

// DeleteKey deletes a root key that is not active.
type DeleteKey struct {
	KeyID string `msg:",omitempty"`
	// Force deletes a key that is in use.
	Force bool `msg:",omitempty"`
}

// Commands registers this package's commands.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &AddKey{} })
	r.Register(func() fsm.Command { return &ActivateKey{} })
	r.Register(func() fsm.Command { return &DeleteKey{} })
}

// Kind implements [fsm.Command].
func (*AddKey) Kind() fsm.Kind { return fsm.KindRootKeyAdd }

// Kind implements [fsm.Command].
func (*ActivateKey) Kind() fsm.Kind { return fsm.KindRootKeyActivate }

// Kind implements [fsm.Command].
func (*DeleteKey) Kind() fsm.Kind { return fsm.KindRootKeyDelete }

// Apply stores the key unless another one became active meanwhile.
func (c *AddKey) Apply(tx *state.Txn) (any, error) {
	if c.Key == nil || c.Key.KeyID == "" {
		return nil, fault.New(fault.Invalid, "missing root key")
	}
	if tx.RootKey(c.Key.KeyID) != nil {
		return nil, fault.New(fault.Conflict, "root key %s exists", c.Key.KeyID)
	}
	key := *c.Key
	if key.State == api.RootKeyPrepublished {
		tx.PutRootKey(&key)
		return &key.RootKeyMeta, nil
	}
	active := ""
	if old := tx.ActiveRootKey(); old != nil {
		active = old.KeyID
	}
	if active != c.Replaces {
		return nil, fault.New(fault.Conflict, "another root key became active meanwhile: %q", active)
	}
	activate(tx, &key)
	return &key.RootKeyMeta, nil
}

// Apply makes the key the active one.
func (c *ActivateKey) Apply(tx *state.Txn) (any, error) {
	k := tx.RootKey(c.KeyID)
	if k == nil || k.State != api.RootKeyPrepublished {
		return nil, fault.New(fault.Conflict, "root key %q is not prepublished", c.KeyID)
	}
	key := *k
	activate(tx, &key)
	return nil, nil
}

// activate stores the key as the active one in the place of the previous one.
func activate(tx *state.Txn, key *api.RootKey) {
	if old := tx.ActiveRootKey(); old != nil {
		retired := *old
		retired.State, retired.RetireTime = api.RootKeyInactive, tx.Now().UnixNano()
		tx.PutRootKey(&retired)
	}
	key.State, key.PublishTime, key.ActiveTime = api.RootKeyActive, 0, tx.Now().UnixNano()
	tx.PutRootKey(key)
}

// Apply deletes the key unless it is in use.
func (c *DeleteKey) Apply(tx *state.Txn) (any, error) {
	switch k := tx.RootKey(c.KeyID); {
	case k == nil:
		return nil, fault.New(fault.NotFound, "root key %q not found", c.KeyID)
	case k.State == api.RootKeyActive:
		return nil, fault.New(fault.Conflict, "root key %s is the active one: rotate the keyring first", c.KeyID)
	case !c.Force:
		if used := uses(tx, k); len(used) > 0 {
			return nil, fault.New(fault.Conflict, "root key %s is in use: %s; wait until nothing uses it, or use force, which makes all of that invalid or unreadable", c.KeyID, strings.Join(used, ", "))
		}
	}
	tx.DeleteRootKey(c.KeyID)
	return nil, nil
}
