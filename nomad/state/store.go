package state

import (
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad/share"
)

// Store holds all tables.
type Store struct {
	db      *memory
	writing sync.Mutex
	watch   watches
	feeds   feeds
	alike   share.Pool
}

// New makes an empty store with the built-in namespace and node pools.
func New() *Store {
	s := &Store{db: newMemory()}
	s.watch.init()
	tx := s.Write(1, time.Time{})
	tx.putBuiltins()
	tx.Commit()
	return s
}

// Read returns a snapshot of all tables.
func (s *Store) Read() *Txn { return &Txn{store: s, mem: s.db.read()} }

// Write starts the one write transaction; Commit or Abort ends it.
func (s *Store) Write(index uint64, now time.Time) *Txn {
	s.writing.Lock()
	return &Txn{store: s, mem: s.db.begin(s.db.db, index), now: now}
}

// published runs after a commit: first the watchers, then the feeds. It returns the changes.
func (s *Store) published(v *view) []Change {
	s.watch.fire(v)
	batch := Batch{Index: v.index, Changes: v.changes}
	if v.removed { // what came and went in one transaction is no change
		batch.Changes = slices.DeleteFunc(batch.Changes, func(c Change) bool { return c.Before == nil && c.After == nil })
	}
	s.feeds.publish(batch)
	return batch.Changes
}
