package variables

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000
//msgp:ignore outcome

// Set creates or changes a variable.
type Set struct {
	Op api.VariableOp `msg:",omitempty"`
	// Row has the encrypted items, and for lock-acquire the lock.
	Row *api.VariableRow `msg:",omitempty"`
	// Keep leaves the items of a variable that exists as they are.
	Keep bool `msg:",omitempty"`
	// CheckIndex is compared by cas.
	CheckIndex uint64 `msg:",omitempty"`
	// LockID is the hash of the id of the lock which the caller holds; empty for none.
	LockID string `msg:",omitempty" secret:"true"`
}

// Delete deletes a variable.
type Delete struct {
	Op         api.VariableOp `msg:",omitempty"`
	Namespace  string         `msg:",omitempty"`
	Path       string         `msg:",omitempty"`
	CheckIndex uint64         `msg:",omitempty"`
	LockID     string         `msg:",omitempty" secret:"true"`
}

// Release removes a lock from a variable.
type Release struct {
	Namespace string `msg:",omitempty"`
	Path      string `msg:",omitempty"`
	LockID    string `msg:",omitempty" secret:"true"`
}

// Reencrypt stores the same items encrypted with another root key.
type Reencrypt struct {
	// Rows have the indexes of the rows that they replace.
	Rows []*api.VariableRow `msg:",omitempty"`
}

// outcome is the result of a command: the variable after it, or the one that prevented it. Row is nil when there is none.
type outcome struct {
	row      *api.VariableRow
	conflict bool
	// locked is set when the lock prevented it.
	locked bool
}

// Commands registers the commands of this service.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &Set{} })
	r.Register(func() fsm.Command { return &Delete{} })
	r.Register(func() fsm.Command { return &Release{} })
	r.Register(func() fsm.Command { return &Reencrypt{} })
}

// Kind implements [fsm.Command].
func (*Set) Kind() fsm.Kind { return fsm.KindVariableSet }

// Kind implements [fsm.Command].
func (*Delete) Kind() fsm.Kind { return fsm.KindVariableDelete }

// Kind implements [fsm.Command].
func (*Release) Kind() fsm.Kind { return fsm.KindVariableRelease }

// Kind implements [fsm.Command].
func (*Reencrypt) Kind() fsm.Kind { return fsm.KindVariableReencrypt }

// refused compares the index and the lock of the stored variable with those of a command; nil permits the change.
func refused(old *api.VariableRow, cas bool, index uint64, lock string) *outcome {
	var held string
	var last uint64
	if old != nil {
		last = old.ModifyIndex
		if old.Lock != nil {
			held = old.Lock.ID
		}
	}
	switch {
	case held != lock:
		return &outcome{row: old, conflict: true, locked: true}
	case cas && last != index:
		return &outcome{row: old, conflict: true}
	}
	return nil
}

// Apply stores the variable unless the index or the lock differs, or the quota of its namespace does not permit it.
func (c *Set) Apply(tx *state.Txn) (any, error) {
	if c.Row == nil {
		return nil, fault.New(fault.Invalid, "missing variable")
	}
	row := *c.Row
	old := tx.Variable(row.Namespace, row.Path)
	lock := c.LockID
	if c.Op == api.VariableAcquire && (old == nil || old.Lock == nil) {
		lock = "" // an expired lock is acquired again
	}
	if no := refused(old, c.Op == api.VariableCAS, c.CheckIndex, lock); no != nil {
		return no, nil
	}
	now := tx.Now().UnixNano()
	row.CreateIndex, row.CreateTime, row.ModifyTime = tx.Index(), now, now
	if old != nil {
		row.CreateIndex, row.CreateTime = old.CreateIndex, old.CreateTime
		if c.Keep {
			row.KeyID, row.Data, row.ModifyTime = old.KeyID, old.Data, old.ModifyTime
		}
		switch {
		case c.Op != api.VariableAcquire:
			row.Lock = old.Lock
		case row.Lock != nil && old.Lock != nil:
			renewed := *row.Lock
			renewed.ID = old.Lock.ID
			row.Lock = &renewed
		}
	}
	switch {
	case tx.Namespace(row.Namespace) == nil:
		return nil, fault.New(fault.Invalid, "nonexistent namespace %q: create it first", row.Namespace)
	case !(c.Keep && old != nil) && tx.RootKey(row.KeyID) == nil:
		return nil, fault.New(fault.Unavailable, "root key %s was removed meanwhile: try again", row.KeyID)
	}
	if !c.Keep { // a lock without items always passes
		if err := quota.VariableAllowed(tx, &row); err != nil {
			return nil, err
		}
	}
	row.ModifyIndex = tx.Index()
	tx.PutVariable(&row)
	return &outcome{row: &row}, nil
}

// Apply deletes the variable unless the index or the lock differs.
func (c *Delete) Apply(tx *state.Txn) (any, error) {
	old := tx.Variable(c.Namespace, c.Path)
	if no := refused(old, c.Op == api.VariableDeleteCAS, c.CheckIndex, c.LockID); no != nil {
		return no, nil
	}
	tx.DeleteVariable(c.Namespace, c.Path)
	return &outcome{}, nil
}

// Apply removes the lock if it is still the same one.
func (c *Release) Apply(tx *state.Txn) (any, error) {
	old := tx.Variable(c.Namespace, c.Path)
	if c.LockID == "" || old == nil {
		return &outcome{row: old, conflict: true, locked: true}, nil
	}
	if no := refused(old, false, 0, c.LockID); no != nil {
		return no, nil
	}
	row := *old
	row.Lock, row.ModifyIndex = nil, tx.Index()
	tx.PutVariable(&row)
	return &outcome{row: &row}, nil
}

// Apply replaces the data of the variables that did not change since they were read.
func (c *Reencrypt) Apply(tx *state.Txn) (any, error) {
	if slices.Contains(c.Rows, nil) {
		return nil, fault.New(fault.Invalid, "missing variable")
	}
	for _, r := range c.Rows {
		old := tx.Variable(r.Namespace, r.Path)
		if old == nil || old.ModifyIndex != r.ModifyIndex || old.CreateIndex != r.CreateIndex || tx.RootKey(r.KeyID) == nil {
			continue
		}
		row := *old
		row.KeyID, row.Data = r.KeyID, r.Data
		tx.PutVariable(&row)
	}
	return nil, nil
}
