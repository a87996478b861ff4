// Package keyed keeps a value for each key as long as somebody uses it, such as the limits of a client address.
package keyed

import "sync"

// Map has the values of the keys that are in use. It may be used by several goroutines; values are shared by the users of
// their key and guard themselves.
type Map[V any] struct {
	make func() V
	mu   sync.Mutex
	by   map[string]*entry[V]
}

type entry[V any] struct {
	value V
	users int
}

// New is an empty map whose values are made by that function for the first user of a key.
func New[V any](first func() V) *Map[V] {
	return &Map[V]{make: first, by: map[string]*entry[V]{}}
}

// Enter is the value of the key for one more user, who calls Leave once.
func (m *Map[V]) Enter(key string) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.by[key]
	if e == nil {
		e = &entry[V]{value: m.make()}
		m.by[key] = e
	}
	e.users++
	return e.value
}

// Leave ends one use; with the last one the value is forgotten.
func (m *Map[V]) Leave(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.by[key]
	if e.users--; e.users == 0 {
		delete(m.by, key)
	}
}

// Len is how many keys are in use.
func (m *Map[V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.by)
}
