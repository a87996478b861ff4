package state

import (
	"slices"
	"strings"
)

// index defines the keys under which a row is found.
type index struct {
	name string
	// prefix is memdb's name for the rows whose keys begin alike.
	prefix string
	// page is where a table in pages has the index.
	page pageOf
	// key returns the only key of a row; nil where keys returns any number of keys.
	key  func(row any) string
	keys func(row any) []string
}

// of returns the keys of a row. A single key is returned in one.
func (i *index) of(row any, one *[1]string) []string {
	if i.key == nil {
		return i.keys(row)
	}
	one[0] = i.key(row)
	return one[:]
}

// layout is what the store knows of a table without the type of its rows.
type layout struct {
	name   string
	number int
	// indexes are the ways to find a row; the first is the primary one.
	indexes []*index
	// fresh makes an empty row to decode into.
	fresh func() any
	// paged is set when the table is kept in pages.
	paged bool
	// stamped is set when rows record their create and modify indexes; stamp writes these.
	stamped bool
	stamp   func(row, old any, index uint64)
	// created and modified return the create and modify index of a row, 0 where rows do not record them.
	created, modified func(row any) uint64
}

func (l *layout) primary() *index { return l.indexes[0] }

func (l *layout) index(name string) *index {
	at := slices.IndexFunc(l.indexes, func(i *index) bool { return i.name == name })
	if at < 0 {
		panic("state: table " + l.name + " has no index " + name)
	}
	return l.indexes[at]
}

// rowKey is a key of several parts: a zero byte is between them.
func rowKey(parts ...string) string {
	switch len(parts) {
	case 1:
		return parts[0]
	case 2:
		return parts[0] + "\x00" + parts[1]
	}
	return strings.Join(parts, "\x00")
}

// unique is the primary index of a table.
func unique[T any](key func(*T) string) *index { return by("id", key) }

// by groups rows by a key.
func by[T any](name string, key func(*T) string) *index {
	return &index{name: name, key: func(row any) string {
		r, ok := row.(*T)
		if !ok {
			return ""
		}
		return key(r)
	}}
}

// byEach puts a row into a group for each of several keys, or of none.
func byEach[T any](name string, keys func(*T) []string) *index {
	return &index{name: name, keys: func(row any) []string {
		r, ok := row.(*T)
		if !ok {
			return nil
		}
		return keys(r)
	}}
}
