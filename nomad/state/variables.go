package state

import (
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

const locked = "locked"

func lockedVariables(v *api.VariableRow) []string {
	if v.Lock == nil {
		return nil
	}
	return []string{locked}
}

// VariableKey is one variable.
func VariableKey(ns, path string) Key { return Key{TableVariables, "id", rowKey(ns, path)} }

// LockedVariablesKey is all variables with a lock.
func LockedVariablesKey() Key { return Key{TableVariables, locked, locked} }

// Variable returns the variable, or nil.
func (t *Txn) Variable(ns, path string) *api.VariableRow { return variables.get(t, rowKey(ns, path)) }

// VariableSpan walks variables by namespace and path.
func (t *Txn) VariableSpan(s Span) iter.Seq[*api.VariableRow] { return variables.byPath(t, s) }

// LockedVariables lists the variables with a lock.
func (t *Txn) LockedVariables() iter.Seq[*api.VariableRow] {
	return variables.list(t, locked, locked)
}

// VariablesOfRootKey lists the variables that are encrypted with a root key.
func (t *Txn) VariablesOfRootKey(id string) iter.Seq[*api.VariableRow] {
	return variables.list(t, "key", id)
}

// PutVariable stores the variable with the indexes that it has. Those of a change are [Txn.Index]; an encryption with another
// root key keeps them.
func (t *Txn) PutVariable(v *api.VariableRow) { variables.put(t, v) }

// DeleteVariable deletes the variable and reports whether there was one.
func (t *Txn) DeleteVariable(ns, path string) bool { return variables.remove(t, t.Variable(ns, path)) }
