package state

import (
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

// stamps points at the raft indexes inside a row.
type stamps struct{ create, modify *uint64 }

// table is the typed view of one table: its name, the keys that a row touches when it
// changes, and where its raft indexes are.
type table[T any] struct {
	name   string
	keys   func(*T) []Key
	stamps func(*T) stamps
}

// all tables as the store needs them: without their row types.
type untyped interface {
	tableName() string
	touched(row any) []Key
	modifyIndex(row any) uint64
	fresh() any
}

func (t table[T]) tableName() string { return t.name }

// fresh makes an empty row to decode into.
func (t table[T]) fresh() any { return new(T) }

func (t table[T]) touched(row any) []Key {
	r, ok := row.(*T)
	if !ok || r == nil || t.keys == nil {
		return nil
	}
	return t.keys(r)
}

func (t table[T]) modifyIndex(row any) uint64 {
	r, ok := row.(*T)
	if !ok || r == nil || t.stamps == nil {
		return 0
	}
	return *t.stamps(r).modify
}

// get returns the row, or nil.
func (t table[T]) get(tx *Txn, index string, args ...string) *T {
	row, ok := tx.mem.first(t.name, index, args).(*T)
	if !ok {
		return nil
	}
	tx.checked(row)
	return row
}

// list yields rows in index order. Rows put or deleted meanwhile do not disturb it.
func (t table[T]) list(tx *Txn, index string, args ...string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		tx.mem.each(t.name, index, args, func(row any) bool {
			tx.checked(row)
			r, ok := row.(*T)
			return ok && yield(r)
		})
	}
}

// put stores the row, which the store owns from now on.
func (t table[T]) put(tx *Txn, row *T, old *T) {
	if t.stamps != nil {
		s := t.stamps(row)
		*s.create, *s.modify = tx.index, tx.index
		if old != nil {
			*s.create = *t.stamps(old).create
		}
	}
	tx.mem.insert(t.name, row)
	tx.dirty[t.name] = struct{}{}
	tx.remember(row)
}

func (t table[T]) remove(tx *Txn, old *T) bool {
	if old == nil {
		return false
	}
	tx.mem.remove(t.name, old)
	tx.dirty[t.name] = struct{}{}
	return true
}

// inNamespace lists rows of one namespace, or of all for "*".
func inNamespace[T any](t table[T], tx *Txn, ns string) iter.Seq[*T] {
	return byPrefix(t, tx, ns, "")
}

// byPrefix lists rows whose (namespace, id) key starts so.
func byPrefix[T any](t table[T], tx *Txn, ns, prefix string) iter.Seq[*T] {
	if ns == api.AllNamespaces {
		return t.list(tx, "id")
	}
	return t.list(tx, "id_prefix", ns, prefix)
}

func filter[T any](seq iter.Seq[*T], keep func(*T) bool) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for row := range seq {
			if keep(row) && !yield(row) {
				return
			}
		}
	}
}
