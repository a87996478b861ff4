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
func (t *Txn) PutVariable(v *api.VariableRow) {
	grows := int64(len(v.Data))
	if old := variables.put(t, v); old != nil {
		grows -= int64(len(old.Data))
	}
	t.mem.addVariables(v.Namespace, grows)
}

// DeleteVariable deletes the variable and reports whether there was one.
func (t *Txn) DeleteVariable(ns, path string) bool {
	old := t.Variable(ns, path)
	if old != nil {
		t.mem.addVariables(ns, -int64(len(old.Data)))
	}
	return variables.remove(t, old)
}

// VariableBytes is the encrypted size of the items of all variables of the namespace. It is not counted when it is read.
func (t *Txn) VariableBytes(ns string) int64 { return t.mem.variableBytes(ns) }

func (v *view) variableBytes(ns string) int64 {
	if c := v.variables.get(ns); c != nil {
		return c.value
	}
	return 0
}

// addVariables changes the size of the variables of a namespace.
func (v *view) addVariables(ns string, bytes int64) {
	if bytes == 0 {
		return
	}
	if bytes += v.variableBytes(ns); bytes == 0 {
		v.variables = v.variables.remove(v.edit(), headOf(ns), ns)
		return
	}
	v.variables, _ = v.variables.put(v.edit(), headOf(ns), &cell[int64]{ns, bytes})
}
