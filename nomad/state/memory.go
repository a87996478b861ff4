package state

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/btree"
)

// The tables in memory: every index is a B-tree of (key, row) whose nodes are copied on write, so that a
// reader keeps what it began with for the price of a pointer, and a writer pays for what it touches. Keys
// that are one field of the row share its memory.

// degree is the least number of entries of a node, and half of the most.
const degree = 32

type entry struct {
	key string
	row any
}

func before(a, b entry) bool { return a.key < b.key }

type tree = btree.BTreeG[entry]

// index says under which keys a row is found. Keys of the primary index are the row's own; those of the
// others end with the primary key.
type index struct {
	name string
	keys func(row any) []string
	slot int
}

// layout is the indexes of one table; the first is the primary one.
type layout struct {
	name    string
	indexes []*index
}

func (l *layout) index(name string) *index {
	at := slices.IndexFunc(l.indexes, func(i *index) bool { return i.name == name })
	if at < 0 {
		panic("state: table " + l.name + " has no index " + name)
	}
	return l.indexes[at]
}

// memory is all tables; the newest version is at roots.
type memory struct {
	layouts map[string]*layout
	slots   int
	roots   atomic.Pointer[[]*tree]
}

func newMemory(layouts []*layout) *memory {
	m := &memory{layouts: map[string]*layout{}}
	for _, l := range layouts {
		m.layouts[l.name] = l
		for _, i := range l.indexes {
			i.slot = m.slots
			m.slots++
		}
	}
	roots := make([]*tree, m.slots)
	for i := range roots {
		roots[i] = newTree()
	}
	m.roots.Store(&roots)
	return m
}

func newTree() *tree { return btree.NewG(degree, before) }

// view is one version of all tables, or the one that is being made.
type view struct {
	memory *memory
	roots  []*tree
	// own says, per slot, that the tree was copied for this writer; nil for readers.
	own []bool
	// changed finds the change of a row in changes by table and primary key; nil when nobody asks.
	changed map[changeKey]int
	changes []Change
}

type changeKey struct {
	table *layout
	key   string
}

func (m *memory) read() *view { return &view{memory: m, roots: *m.roots.Load()} }

// write begins the next version. There is one writer at a time.
func (m *memory) write(track bool) *view {
	v := &view{memory: m, roots: slices.Clone(*m.roots.Load()), own: make([]bool, m.slots)}
	if track {
		v.changed = map[changeKey]int{}
	}
	return v
}

// commit makes the version the newest one.
func (v *view) commit() { v.memory.roots.Store(&v.roots) }

func (v *view) table(name string) *layout {
	l := v.memory.layouts[name]
	if l == nil {
		panic("state: there is no table " + name)
	}
	return l
}

// tree is a tree that this writer may change.
func (v *view) tree(i *index) *tree {
	if !v.own[i.slot] {
		v.roots[i.slot], v.own[i.slot] = v.roots[i.slot].Clone(), true
	}
	return v.roots[i.slot]
}

// prefixOf is the name of a search by the beginning of a primary key.
const prefixOf = "id_prefix"

// first answers the row with the primary key, or the first one of a group of another index; or nil.
func (v *view) first(table, by string, args []string) any {
	l := v.table(table)
	if by == "id" {
		e, _ := v.roots[l.indexes[0].slot].Get(entry{key: joined(args)})
		return e.row
	}
	var row any
	v.scan(l, by, args, func(r any) bool {
		row = r
		return false
	})
	return row
}

// each calls do with the rows of a group, or with all when there are no args, in the order of keys. Rows may
// be changed meanwhile.
func (v *view) each(table, by string, args []string, do func(row any) bool) {
	l := v.table(table)
	if v.own == nil {
		v.scan(l, by, args, do)
		return
	}
	var rows []any
	v.scan(l, by, args, func(row any) bool {
		rows = append(rows, row)
		return true
	})
	for _, row := range rows {
		if !do(row) {
			return
		}
	}
}

func (v *view) scan(l *layout, by string, args []string, do func(row any) bool) {
	prefix, i := "", l.indexes[0]
	switch {
	case by == prefixOf:
		prefix = joined(args)
	case by == "id" && len(args) > 0:
		panic("state: a list by the whole primary key of " + l.name)
	case by != "id":
		prefix, i = grouped(args), l.index(by)
	}
	v.roots[i.slot].AscendGreaterOrEqual(entry{key: prefix}, func(e entry) bool {
		return strings.HasPrefix(e.key, prefix) && do(e.row)
	})
}

// insert stores a row and answers the one that it replaces.
func (v *view) insert(table string, row any) (old any) {
	l := v.table(table)
	primary := l.indexes[0]
	key := primary.keys(row)[0]
	replaced, _ := v.tree(primary).ReplaceOrInsert(entry{key, row})
	for _, i := range l.indexes[1:] {
		t, keys := v.tree(i), i.keys(row)
		if replaced.row != nil {
			for _, k := range i.keys(replaced.row) {
				if !slices.Contains(keys, k) {
					t.Delete(entry{key: member(k, key)})
				}
			}
		}
		for _, k := range keys {
			t.ReplaceOrInsert(entry{member(k, key), row})
		}
	}
	v.note(l, key, replaced.row, row)
	return replaced.row
}

// remove forgets a row.
func (v *view) remove(table string, row any) {
	l := v.table(table)
	key := l.indexes[0].keys(row)[0]
	gone, had := v.tree(l.indexes[0]).Delete(entry{key: key})
	if !had {
		return
	}
	for _, i := range l.indexes[1:] {
		for _, k := range i.keys(gone.row) {
			v.tree(i).Delete(entry{key: member(k, key)})
		}
	}
	v.note(l, key, gone.row, nil)
}

// note remembers a change; of several changes of one row the first Before and the last After count.
func (v *view) note(l *layout, key string, before, after any) {
	if v.changed == nil {
		return
	}
	k := changeKey{l, key}
	if at, known := v.changed[k]; known {
		v.changes[at].After = after
		return
	}
	v.changed[k] = len(v.changes)
	v.changes = append(v.changes, Change{l.name, before, after})
}

// fill replaces all rows of a table; rows are in the order of their primary keys.
func (v *view) fill(table string, rows []any) {
	l := v.table(table)
	primary := l.indexes[0]
	ids := make([]string, len(rows))
	for n, row := range rows {
		ids[n] = primary.keys(row)[0]
	}
	var building sync.WaitGroup
	for _, i := range l.indexes {
		t := newTree()
		v.roots[i.slot], v.own[i.slot] = t, true
		building.Go(func() { i.build(t, rows, ids, i == primary) })
	}
	building.Wait()
}

// build adds rows to the empty tree of an index.
func (i *index) build(t *tree, rows []any, ids []string, primary bool) {
	if primary {
		for n, row := range rows {
			t.ReplaceOrInsert(entry{ids[n], row})
		}
		return
	}
	entries := make([]entry, 0, len(rows))
	for n, row := range rows {
		for _, k := range i.keys(row) {
			entries = append(entries, entry{member(k, ids[n]), row})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	for _, e := range entries {
		t.ReplaceOrInsert(e)
	}
}
