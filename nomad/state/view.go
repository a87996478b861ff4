package state

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/go-memdb"
)

// version is all tables at one index.
type version struct {
	index uint64
	// line identifies the history since the last restore; indexes are comparable only within one line.
	line uint64
	// rows reads the tables.
	rows *memdb.Txn
	// changed is the last index at which a table changed, at its number; 0 is never.
	changed []uint64
	// variables is the encrypted size of the variables of each namespace in bytes.
	variables *node[int64]
}

// memory is the database and its newest version.
type memory struct {
	db     *memdb.MemDB
	newest atomic.Pointer[version]
	// last is the last number that a writer or a change got.
	last uint64
}

func newMemory() *memory {
	m := &memory{db: newDB()}
	m.newest.Store(&version{line: rand.Uint64(), rows: m.db.Txn(false), changed: make([]uint64, len(tables))})
	return m
}

// view is one version of all tables, or the one that is being made.
type view struct {
	version
	memory *memory
	// db is where the writer writes, and write how; nil for readers.
	db    *memdb.MemDB
	write *memdb.Txn
	// writer is the number of the writer that makes the version. Changes are numbered from it.
	writer  uint64
	changes []Change
	// dirty has a bit per table that changes.
	dirty uint64
	// noted maps rows whose record does not hold their change: rows of ordinary tables, and rows removed from pages.
	noted map[rowOf]int
	// removed is set when a row was removed.
	removed bool
	// left are groups that a row left: of pages, only those that it left empty.
	left []Key
	// own are the pages that the writer may change.
	own map[*index]*page
}

type rowOf struct {
	table *layout
	key   string
}

func (m *memory) read() view { return view{memory: m, version: *m.newest.Load()} }

// begin makes the next version in the database. There is one writer at a time.
func (m *memory) begin(db *memdb.MemDB, at uint64) view {
	v := m.read()
	m.last++
	v.writer = m.last
	v.db, v.rows, v.write, v.own = db, db.Txn(false), db.Txn(true), map[*index]*page{}
	v.index, v.changed = at, slices.Clone(v.changed)
	return v
}

// commit makes the version the newest one.
func (v *view) commit() {
	v.resetUnchanged()
	v.write.Commit()
	next := v.version
	next.rows = v.db.Txn(false)
	v.memory.db = v.db
	v.memory.newest.Store(&next)
}

// resetUnchanged restores the index of tables in which rows were only added and deleted again: no watcher is woken for
// that, so none must wait for the index.
func (v *view) resetUnchanged() {
	if !v.removed {
		return
	}
	differs := map[string]bool{}
	for _, c := range v.changes {
		differs[c.Table] = differs[c.Table] || c.Before != nil || c.After != nil
	}
	for _, l := range tables {
		if changed, seen := differs[l.name]; seen && !changed {
			v.changed[l.number] = v.memory.newest.Load().changed[l.number]
		}
	}
}

// get returns the row with the primary key, or nil.
func (v *view) get(l *layout, key string) any {
	if l.paged {
		return v.record(l, key)
	}
	return v.row(l, key)
}

// from calls do for each row whose primary key has the prefix, in key order, until do returns false.
func (v *view) from(l *layout, prefix string, do func(row any) bool) {
	if l.paged {
		v.recordsFrom(l, prefix, do)
		return
	}
	v.rowsFrom(l, prefix, do)
}

// walk calls do for each row from the primary key on, in key order, or backwards from there with reverse, until do
// returns false.
func (v *view) walk(l *layout, key string, reverse bool, do func(key string, row any) bool) {
	if l.paged {
		v.page(l.primary()).records.walk(headOf(key), key, reverse, func(c *cell[record]) bool { return do(c.key, c.value.row) })
		return
	}
	v.walkRows(l, key, reverse, do)
}

// group calls do for each row of a group, in the order of creation, until do returns false.
func (v *view) group(l *layout, i *index, key string, do func(row any) bool) {
	if l.paged {
		v.members(i, key).all(func(c *cell[record]) bool { return do(c.value.row) })
		return
	}
	v.rowsOf(l, i, key, do)
}

// each calls do for each row that list yields until do returns false. Rows may be changed meanwhile.
func (v *view) each(list func(func(row any) bool), do func(row any) bool) {
	if v.write == nil {
		list(do)
		return
	}
	var rows []any
	list(func(row any) bool {
		rows = append(rows, row)
		return true
	})
	for _, row := range rows {
		if !do(row) {
			return
		}
	}
}

// insert stores a row and returns the row that it replaces.
func (v *view) insert(l *layout, row any) (old any) {
	if l.paged {
		return v.insertRecord(l, row)
	}
	return v.insertRow(l, row)
}

// remove forgets a row.
func (v *view) remove(l *layout, row any) {
	key := l.primary().key(row)
	if l.paged {
		v.removeRecord(l, key)
	} else {
		v.removeRow(l, key)
	}
}

// fill writes all rows of a table, which has none; they are in the order of their primary keys.
func (v *view) fill(l *layout, rows []any) {
	if l.paged {
		v.fillPages(l, rows)
		return
	}
	for _, row := range rows {
		must(v.write.Insert(l.name, row))
	}
}

// noteRow records a change of a row that holds no number of a change. Several changes of one row become one change, with
// the first Before and the last After.
func (v *view) noteRow(l *layout, key string, old, row any) {
	if at, known := v.noted[rowOf{l, key}]; known {
		v.noteAgain(l, at, row)
		return
	}
	if v.noted == nil {
		v.noted = map[rowOf]int{}
	}
	v.noted[rowOf{l, key}] = v.note(l, old, row)
}

// note records a change and returns its position.
func (v *view) note(l *layout, old, row any) (at int) {
	v.touch(l)
	v.removed = v.removed || row == nil
	v.changes = append(v.changes, Change{Table: l.name, Before: old, After: row})
	v.memory.last++
	return len(v.changes) - 1
}

// noteAgain remembers a later change of a row that changed before.
func (v *view) noteAgain(l *layout, at int, row any) {
	v.touch(l)
	v.removed = v.removed || row == nil
	v.changes[at].After = row
}

func (v *view) touch(l *layout) {
	v.changed[l.number] = v.index
	v.dirty |= 1 << l.number
}

// touched returns the last index at which a group changed, as far as its present rows show it.
func (v *view) touched(l *layout, i *index, key string) uint64 {
	if !l.paged {
		return v.touchedRows(l, i, key)
	}
	if g := v.groupAt(i, key); g != nil {
		return g.value.touched
	}
	return 0
}
