package state

import (
	"iter"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
)

// stamps points at the raft indexes inside a row.
type stamps struct{ create, modify *uint64 }

// table is the typed view of one table.
type table[T any] struct{ *layout }

// encoded is a row that snapshots can contain.
type encoded[T any] interface {
	*T
	msgp.Marshaler
	msgp.Unmarshaler
}

// tableOf describes a table; without stamps its rows record no create and modify index.
func tableOf[T any, P encoded[T]](name string, at func(*T) stamps, primary *index, others ...*index) table[T] {
	l := &layout{name: name, stamped: at != nil, indexes: append([]*index{primary}, others...), fresh: func() any { return P(new(T)) }}
	l.created = func(row any) uint64 { return stampOf(row, at, func(s stamps) *uint64 { return s.create }) }
	l.modified = func(row any) uint64 { return stampOf(row, at, func(s stamps) *uint64 { return s.modify }) }
	l.stamp = func(row, old any, index uint64) {
		if r, ok := row.(*T); ok && at != nil {
			created := index
			if old != nil {
				created = l.created(old) // before the stamps are set: old may be the same row
			}
			s := at(r)
			*s.create, *s.modify = created, index
		}
	}
	return table[T]{l}
}

// stampedByCommands leaves the indexes of rows to the commands: not every put is a change that clients compare.
func (t table[T]) stampedByCommands() table[T] {
	t.stamp = func(_, _ any, _ uint64) {}
	return t
}

func stampOf[T any](row any, at func(*T) stamps, which func(stamps) *uint64) uint64 {
	r, ok := row.(*T)
	if !ok || at == nil {
		return 0
	}
	return *which(at(r))
}

// get returns the row with the primary key, or nil.
func (t table[T]) get(tx *Txn, key string) *T {
	row, _ := tx.mem.get(t.layout, key).(*T)
	if row != nil {
		tx.checked(row)
	}
	return row
}

// first returns the first row of a group, or nil.
func (t table[T]) first(tx *Txn, index, key string) *T {
	for row := range t.list(tx, index, key) {
		return row
	}
	return nil
}

// list yields the rows of a group in the order of their create indexes, and then of their primary keys. Rows
// without a create index are in the order of their keys. Rows may be put or deleted during the iteration.
func (t table[T]) list(tx *Txn, index, key string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		t.each(tx, func(do func(any) bool) { tx.mem.group(t.layout, t.index(index), key, do) }, yield)
	}
}

// since yields the rows of a group in pages that were put after the index, and some of the others. It is for reads.
func (t table[T]) since(tx *Txn, index, key string, after uint64) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		tx.mem.members(t.index(index), key).since(after, func(c *cell[record]) bool {
			tx.checked(c.value.row)
			r, ok := c.value.row.(*T)
			return ok && yield(r)
		})
	}
}

// count is how many rows a group in pages has.
func (t table[T]) count(tx *Txn, index, key string) int {
	if g := tx.mem.groupAt(t.index(index), key); g != nil {
		return int(g.value.count)
	}
	return 0
}

// all yields all rows in the order of their primary keys, as list does.
func (t table[T]) all(tx *Txn) iter.Seq[*T] { return t.from(tx, "") }

// from yields the rows whose primary keys have the prefix, in key order.
func (t table[T]) from(tx *Txn, prefix string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		t.each(tx, func(do func(any) bool) { tx.mem.from(t.layout, prefix, do) }, yield)
	}
}

// grouped yields the rows of the groups in pages whose keys have the prefix, group by group in key order.
func (t table[T]) grouped(tx *Txn, index, prefix string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		t.each(tx, func(do func(any) bool) { tx.mem.groupsFrom(t.index(index), prefix, do) }, yield)
	}
}

func (t table[T]) each(tx *Txn, list func(func(any) bool), yield func(*T) bool) {
	tx.mem.each(list, func(row any) bool {
		tx.checked(row)
		r, ok := row.(*T)
		return ok && yield(r)
	})
}

// put stores the row and returns the row that it replaces, or nil. The store owns the row from then on.
func (t table[T]) put(tx *Txn, row *T) (old *T) {
	old, _ = tx.mem.insert(t.layout, row).(*T)
	tx.remember(row)
	return old
}

func (t table[T]) remove(tx *Txn, old *T) bool {
	if old == nil {
		return false
	}
	tx.mem.remove(t.layout, old)
	return true
}

// inNamespace lists rows of one namespace, or of all for "*".
func inNamespace[T any](t table[T], tx *Txn, ns string) iter.Seq[*T] {
	if ns == api.AllNamespaces {
		return t.all(tx)
	}
	return t.from(tx, rowKey(ns, ""))
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
