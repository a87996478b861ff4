package state

import (
	"sync"
	"time"
)

// Store holds all tables.
type Store struct {
	db      *memory
	writing sync.Mutex
	watch   watches
	feeds   feeds
}

// New makes an empty store with the built-in namespace and node pools.
func New() (*Store, error) {
	s := &Store{db: newMemory(schema())}
	s.watch.init()
	tx := s.Write(1, time.Time{})
	tx.putBuiltins()
	tx.Commit()
	return s, nil
}

// Read returns a snapshot of all tables.
func (s *Store) Read() *Txn {
	t := &Txn{store: s, mem: s.db.read()}
	if row := indexes.get(t, "id", appliedRow); row != nil {
		t.index = row.Value
	}
	return t
}

// Write starts the one write transaction; Commit or Abort ends it.
func (s *Store) Write(index uint64, now time.Time) *Txn {
	s.writing.Lock()
	return &Txn{store: s, mem: s.db.write(true), index: index, now: now, write: true, dirty: map[string]struct{}{}}
}

// published runs after a commit: first the indexes and watchers, then the feeds.
func (s *Store) published(index uint64, changes []Change) {
	keys := map[Key]struct{}{}
	batch := make([]Change, 0, len(changes))
	for _, c := range changes {
		t, known := tables[c.Table]
		if !known {
			continue
		}
		keys[TableKey(c.Table)] = struct{}{}
		for _, row := range []any{c.Before, c.After} {
			for _, k := range t.touched(row) {
				keys[k] = struct{}{}
			}
		}
		if c.Before != nil || c.After != nil {
			batch = append(batch, c)
		}
	}
	s.watch.fire(index, keys)
	s.feeds.publish(Batch{Index: index, Changes: batch})
}
