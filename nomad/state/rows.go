package state

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/hashicorp/go-memdb"
)

// Ordinary tables are tables of memdb: its rows are the records of package api, and its indexes are ours.

// newDB makes an empty database. It is a snapshot, because snapshots have no watch channels: the watches of this package
// notify waiting readers.
func newDB() *memdb.MemDB {
	db, err := memdb.NewMemDB(schema)
	must(err)
	return db.Snapshot()
}

// must turns errors that only a wrong schema can cause into panics.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("state: %v", err))
	}
}

// schemaOf is what memdb knows of an ordinary table.
func schemaOf(l *layout) *memdb.TableSchema {
	s := &memdb.TableSchema{Name: l.name, Indexes: map[string]*memdb.IndexSchema{
		"id": {Name: "id", Unique: true, Indexer: textIndexer(l.primary().key)},
	}}
	for _, i := range l.indexes[1:] {
		s.Indexes[i.name] = &memdb.IndexSchema{Name: i.name, Unique: true, AllowMissing: true, Indexer: groupIndexer{l, i}}
	}
	return s
}

// textIndexer indexes a row by a text.
type textIndexer func(row any) string

func (key textIndexer) FromObject(row any) (bool, []byte, error) { return true, []byte(key(row)), nil }

func (textIndexer) FromArgs(args ...any) ([]byte, error) {
	if key, ok := args[0].(string); ok {
		return []byte(key), nil
	}
	return nil, fmt.Errorf("a key is a %T", args[0])
}

func (t textIndexer) PrefixFromArgs(args ...any) ([]byte, error) { return t.FromArgs(args...) }

// groupIndexer finds the rows of a group in the order in which they came: by the index, and then by their primary keys.
type groupIndexer struct {
	*layout
	index *index
}

func (g groupIndexer) FromObject(row any) (bool, [][]byte, error) {
	var one [1]string
	keys := g.index.of(row, &one)
	out := make([][]byte, 0, len(keys))
	for _, k := range keys {
		out = append(out, append(binary.BigEndian.AppendUint64(groupPrefix(k), g.created(row)), g.primary().key(row)...))
	}
	return len(out) > 0, out, nil
}

func (g groupIndexer) FromArgs(args ...any) ([]byte, error) { return g.PrefixFromArgs(args...) }

func (groupIndexer) PrefixFromArgs(args ...any) ([]byte, error) {
	if key, ok := args[0].(string); ok {
		return groupPrefix(key), nil
	}
	return nil, fmt.Errorf("a key is a %T", args[0])
}

// groupPrefix is where the keys of a group begin: no other group's do.
func groupPrefix(key string) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, len(key)+64), uint32(len(key))), key...)
}

// reading is the transaction that sees what the view has.
func (v *view) reading() *memdb.Txn {
	if v.write != nil {
		return v.write
	}
	return v.rows
}

func (v *view) row(l *layout, key string) any {
	row, err := v.reading().First(l.name, "id", key)
	must(err)
	return row
}

func (v *view) rowsFrom(l *layout, prefix string, do func(any) bool) {
	it, err := v.reading().Get(l.name, "id_prefix", prefix)
	must(err)
	walk(it, do)
}

func (v *view) rowsOf(l *layout, i *index, key string, do func(any) bool) {
	it, err := v.reading().Get(l.name, i.prefix, key)
	must(err)
	walk(it, do)
}

func (v *view) walkRows(l *layout, key string, reverse bool, do func(key string, row any) bool) {
	find := v.reading().LowerBound
	if reverse {
		find = v.reading().ReverseLowerBound
	}
	it, err := find(l.name, "id", key)
	must(err)
	walk(it, func(row any) bool { return do(l.primary().key(row), row) })
}

func walk(it memdb.ResultIterator, do func(any) bool) {
	for row := it.Next(); row != nil && do(row); row = it.Next() {
	}
}

func (v *view) insertRow(l *layout, row any) (old any) {
	key := l.primary().key(row)
	old = v.row(l, key)
	l.stamp(row, old, v.index)
	must(v.write.Insert(l.name, row))
	v.noteRow(l, key, old, row)
	if old == nil {
		return nil
	}
	for _, i := range l.indexes[1:] {
		var now, then [1]string
		keys := i.of(row, &now)
		for _, k := range i.of(old, &then) {
			if !slices.Contains(keys, k) {
				v.left = append(v.left, Key{l.name, i.name, k})
			}
		}
	}
	return old
}

func (v *view) removeRow(l *layout, key string) {
	old := v.row(l, key)
	if old == nil {
		return
	}
	must(v.write.Delete(l.name, old))
	v.noteRow(l, key, old, nil)
	for _, i := range l.indexes[1:] {
		var then [1]string
		for _, k := range i.of(old, &then) {
			v.left = append(v.left, Key{l.name, i.name, k})
		}
	}
}

// touchedRows returns the last index at which a row of the group changed. For rows without a modify index it returns
// that of the table.
func (v *view) touchedRows(l *layout, i *index, key string) (last uint64) {
	if !l.stamped {
		return v.changed[l.number]
	}
	v.rowsOf(l, i, key, func(row any) bool {
		last = max(last, l.modified(row))
		return true
	})
	return last
}
