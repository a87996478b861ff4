package store

import (
	"maps"
	"strings"
	"sync"
)

// memory is the in-memory twin of the file.
type memory struct {
	mu      sync.Mutex
	buckets map[string]map[string][]byte
}

func (m *memory) apply(batch map[slot][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, value := range batch {
		if m.buckets[at.bucket] == nil {
			m.buckets[at.bucket] = map[string][]byte{}
		}
		if value == nil {
			delete(m.buckets[at.bucket], at.key)
		} else {
			m.buckets[at.bucket][at.key] = value
		}
	}
	return nil
}

func (m *memory) get(at slot) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.buckets[at.bucket][at.key], nil
}

func (m *memory) all(bucket, prefix string) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := maps.Clone(m.buckets[bucket])
	maps.DeleteFunc(out, func(key string, _ []byte) bool { return !strings.HasPrefix(key, prefix) })
	if out == nil {
		out = map[string][]byte{}
	}
	return out, nil
}

func (m *memory) close() error { return nil }
