package state

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// Txn is a consistent view of all tables; one from [Store.Write] can also change them.
type Txn struct {
	store *Store
	mem   *view
	index uint64
	now   time.Time
	write bool
	dirty map[string]struct{}
	// counted are the job summaries that this transaction made and may still change.
	counted map[*api.JobSummary]bool
}

// indexRow holds the last raft index at which a table changed.
type indexRow struct {
	Table string
	Value uint64
}

// Index is the raft index being applied, or of the last commit that a read sees.
func (t *Txn) Index() uint64 { return t.index }

// Now is the time of the command being applied; zero for reads.
func (t *Txn) Now() time.Time { return t.now }

// TableIndex is the last index at which any of the tables changed; at least 1.
func (t *Txn) TableIndex(tables ...string) uint64 {
	highest := uint64(1)
	for _, name := range tables {
		if row := indexes.get(t, "id", name); row != nil {
			highest = max(highest, row.Value)
		}
	}
	return highest
}

// Commit publishes the changes, wakes those who watch them, and feeds them.
func (t *Txn) Commit() {
	for name := range t.dirty {
		t.mem.insert(indexes.name, &indexRow{name, t.index})
	}
	t.mem.insert(indexes.name, &indexRow{appliedRow, t.index})
	t.mem.commit()
	t.store.published(t.index, t.mem.changes)
	t.store.writing.Unlock()
}

// Abort forgets the changes.
func (t *Txn) Abort() {
	t.store.writing.Unlock()
}
