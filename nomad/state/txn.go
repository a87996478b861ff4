package state

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/share"
	"github.com/open-nomad/open-nomad/nomad/volumes/timeline"
)

// Txn is a consistent view of all tables; one from [Store.Write] can also change them.
type Txn struct {
	store *Store
	mem   view
	now   time.Time
	// counted are the job summaries that this transaction made and may still change; counting is the latest.
	counted  map[*api.JobSummary]bool
	counting *api.JobSummary
	// call is the driver's call whose result the command records.
	call timeline.Call
}

// Index is the raft index being applied, or of the last commit that a read sees.
func (t *Txn) Index() uint64 { return t.mem.index }

// Line identifies the history since the last restore; indexes are comparable only within one line: it changes with every restore and differs
// between servers.
func (t *Txn) Line() uint64 { return t.mem.line }

// Now is the time of the command being applied; zero for reads.
func (t *Txn) Now() time.Time { return t.now }

// Alike finds parts of rows again that were put lately, so that new rows share them. It is for the writer.
func (t *Txn) Alike() *share.Pool { return &t.store.alike }

// TableIndex is the last index at which any of the tables changed; at least 1.
func (t *Txn) TableIndex(names ...string) uint64 {
	highest := uint64(1)
	for _, name := range names {
		if l := tables[name]; l != nil {
			highest = max(highest, t.mem.changed[l.number])
		}
	}
	return highest
}

// Commit adds the changes to the timelines of volumes, publishes them, wakes their watchers, and feeds them. It returns the
// changes, which are read-only.
func (t *Txn) Commit() []Change {
	defer t.store.writing.Unlock()
	t.recordTimelines()
	t.mem.commit()
	return t.store.published(&t.mem)
}

// Abort forgets the changes.
func (t *Txn) Abort() {
	t.mem.write.Abort()
	t.store.writing.Unlock()
}
