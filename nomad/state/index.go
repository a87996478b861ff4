package state

import (
	"fmt"

	"github.com/hashicorp/go-memdb"
)

// keyIndex indexes rows by a tuple of strings; nil parts leave a row out.
type keyIndex[T any] struct {
	parts func(*T) []string
}

func appendKey(b []byte, part string) []byte {
	return append(append(b, part...), 0)
}

func (k keyIndex[T]) FromObject(obj any) (bool, []byte, error) {
	row, ok := obj.(*T)
	if !ok {
		return false, nil, fmt.Errorf("row is a %T", obj)
	}
	parts := k.parts(row)
	if parts == nil {
		return false, nil, nil
	}
	var b []byte
	for _, p := range parts {
		b = appendKey(b, p)
	}
	return true, b, nil
}

func (k keyIndex[T]) FromArgs(args ...any) ([]byte, error) {
	return keyOf(args)
}

// PrefixFromArgs treats the last argument as a prefix and those before it as whole parts.
func (k keyIndex[T]) PrefixFromArgs(args ...any) ([]byte, error) {
	b, err := keyOf(args)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return b[:len(b)-1], nil
}

func keyOf(args []any) ([]byte, error) {
	var b []byte
	for _, a := range args {
		s, ok := a.(string)
		if !ok {
			return nil, fmt.Errorf("index argument is a %T", a)
		}
		b = appendKey(b, s)
	}
	return b, nil
}

// setIndex indexes a row under each of several values.
type setIndex[T any] struct {
	values func(*T) []string
}

func (s setIndex[T]) FromObject(obj any) (bool, [][]byte, error) {
	row, ok := obj.(*T)
	if !ok {
		return false, nil, fmt.Errorf("row is a %T", obj)
	}
	var keys [][]byte
	for _, v := range s.values(row) {
		keys = append(keys, appendKey(nil, v))
	}
	return len(keys) > 0, keys, nil
}

func (s setIndex[T]) FromArgs(args ...any) ([]byte, error) { return keyOf(args) }

// unique is the primary index of a table.
func unique[T any](parts func(*T) []string) *memdb.IndexSchema {
	return &memdb.IndexSchema{Name: "id", Unique: true, Indexer: keyIndex[T]{parts}}
}

func by[T any](name string, parts func(*T) []string) *memdb.IndexSchema {
	return &memdb.IndexSchema{Name: name, AllowMissing: true, Indexer: keyIndex[T]{parts}}
}

func byEach[T any](name string, values func(*T) []string) *memdb.IndexSchema {
	return &memdb.IndexSchema{Name: name, AllowMissing: true, Indexer: setIndex[T]{values}}
}

func tableOf(name string, indexes ...*memdb.IndexSchema) *memdb.TableSchema {
	t := &memdb.TableSchema{Name: name, Indexes: map[string]*memdb.IndexSchema{}}
	for _, i := range indexes {
		t.Indexes[i.Name] = i
	}
	return t
}
