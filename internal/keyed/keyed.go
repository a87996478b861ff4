// Package keyed keeps a value for each key while the key is in use, such as the limits of a client address.
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

// New returns an empty map; first makes the value for the first user of a key.
func New[V any](first func() V) *Map[V] {
	return &Map[V]{make: first, by: map[string]*entry[V]{}}
}

// Enter returns the value of the key for one more user, who must call Leave once.
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

// Leave ends one use; the last one removes the value.
func (m *Map[V]) Leave(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.by[key]
	if e.users--; e.users == 0 {
		delete(m.by, key)
	}
}

// Len returns the number of keys in use.
func (m *Map[V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.by)
}
