package quota

import "slices"

// Cache keeps what a quota uses until allocations, namespaces or quotas change, so that many evaluations that the quota
// blocks count once. The zero value is empty; it is for one goroutine.
type Cache struct {
	line, index uint64
	book        *Book
}

// At forgets what was counted in another state: index is that of the last change of the tables of allocations, namespaces
// and quotas.
func (c *Cache) At(line, index uint64) {
	if c.line != line || c.index != index {
		c.line, c.index, c.book = line, index, nil
	}
}

// Open is [Open] with what was counted before; a nil cache keeps nothing.
func (c *Cache) Open(v View, namespace string) *Book {
	n := v.Namespace(namespace)
	if n == nil || n.Quota == "" {
		return nil
	}
	if c == nil {
		return Open(v, namespace)
	}
	if c.book == nil || c.book.Name != n.Quota {
		if c.book = Open(v, namespace); c.book == nil {
			return nil
		}
	}
	own := *c.book
	own.counts = slices.Clone(own.counts)
	return &own
}
