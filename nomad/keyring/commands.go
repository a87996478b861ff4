package keyring

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000

// AddKey makes a root key the active one in the place of another.
type AddKey struct {
	Key *api.RootKey `msg:",omitempty"`
	// Replaces is the active key that the proposer saw; empty for none.
	Replaces string `msg:",omitempty"`
}

// DeleteKey forgets a root key that is not active.
type DeleteKey struct {
	KeyID string `msg:",omitempty"`
	// Force deletes a key that variables are encrypted with.
	Force bool `msg:",omitempty"`
}

// Commands registers this package's commands.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &AddKey{} })
	r.Register(func() fsm.Command { return &DeleteKey{} })
}

// Kind implements [fsm.Command].
func (*AddKey) Kind() fsm.Kind { return fsm.KindRootKeyAdd }

// Kind implements [fsm.Command].
func (*DeleteKey) Kind() fsm.Kind { return fsm.KindRootKeyDelete }

// Apply stores the key unless another one became active meanwhile.
func (c *AddKey) Apply(tx *state.Txn) (any, error) {
	if c.Key == nil || c.Key.KeyID == "" {
		return nil, fault.New(fault.Invalid, "missing root key")
	}
	old, was := tx.ActiveRootKey(), ""
	if old != nil {
		was = old.KeyID
	}
	if was != c.Replaces || tx.RootKey(c.Key.KeyID) != nil {
		return nil, fault.New(fault.Conflict, "another root key became active meanwhile: %q", was)
	}
	if old != nil {
		retired := *old
		retired.State = api.RootKeyInactive
		tx.PutRootKey(&retired)
	}
	tx.PutRootKey(c.Key)
	return &c.Key.RootKeyMeta, nil
}

// Apply forgets the key.
func (c *DeleteKey) Apply(tx *state.Txn) (any, error) {
	switch k := tx.RootKey(c.KeyID); {
	case k == nil:
		return nil, fault.New(fault.NotFound, "root key %q not found", c.KeyID)
	case k.State == api.RootKeyActive:
		return nil, fault.New(fault.Conflict, "root key %s is the active one: rotate the keyring first", c.KeyID)
	}
	used := 0
	for range tx.VariablesOfRootKey(c.KeyID) {
		used++
	}
	if used > 0 && !c.Force {
		return nil, fault.New(fault.Conflict, "%d variables are encrypted with root key %s: wait until they are encrypted with the active key, or use force, which makes them unreadable", used, c.KeyID)
	}
	tx.DeleteRootKey(c.KeyID)
	return nil, nil
}
