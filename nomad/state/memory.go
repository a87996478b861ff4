package state

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// The tables in memory: a tree of rows under their primary keys and, for every other index, a tree of groups,
// each of which is a tree of the same cells.

// version is all tables at one index.
type version struct {
	index uint64
	// line is a number of its own for what came about without a restore in between.
	line uint64
	// roots are the trees, at the slots of their indexes.
	roots []*node
	// changed is the last index at which a table changed, at its number; 0 is never.
	changed []uint64
}

// memory is the newest version, and the last number that a writer or a change got.
type memory struct {
	newest atomic.Pointer[version]
	last   uint64
}

func newMemory() *memory {
	m := &memory{}
	m.newest.Store(&version{line: rand.Uint64(), roots: make([]*node, slots), changed: make([]uint64, len(tables))})
	return m
}

// view is one version of all tables, or the one that is being made.
type view struct {
	version
	memory *memory
	// writer is the number of who makes the version; 0 for readers. Changes count on from it.
	writer  uint64
	changes []Change
	// dirty has a bit per table that changes.
	dirty uint64
	// removed finds the changes that removed a row.
	removed map[rowOf]int
	// emptied are groups that lost their last row.
	emptied []Key
}

type rowOf struct {
	table *layout
	key   string
}

func (v *view) edit() edit { return edit{v.writer, v.index} }

func (m *memory) read() view { return view{memory: m, version: *m.newest.Load()} }

// write begins the next version. There is one writer at a time.
func (m *memory) write(index uint64) view {
	v := m.read()
	m.last++
	v.writer = m.last
	v.index, v.roots, v.changed = index, slices.Clone(v.roots), slices.Clone(v.changed)
	return v
}

// commit makes the version the newest one.
func (v *view) commit() {
	v.unmove()
	next := v.version
	v.memory.newest.Store(&next)
}

// unmove takes back the index of tables whose rows only came and went: nobody is told of that, so nobody must wait
// for it.
func (v *view) unmove() {
	if len(v.removed) == 0 {
		return
	}
	told := map[string]bool{}
	for _, c := range v.changes {
		told[c.Table] = told[c.Table] || c.Before != nil || c.After != nil
	}
	for _, l := range tables {
		if moved, seen := told[l.name]; seen && !moved {
			v.changed[l.number] = v.memory.newest.Load().changed[l.number]
		}
	}
}

// rows are the rows of a table under their primary keys.
func (v *view) rows(l *layout) *node { return v.roots[l.indexes[0].slot] }

// group is the rows of one group of an index under their primary keys.
func (v *view) group(l *layout, by, key string) *node {
	return v.roots[l.index(by).slot].get(key).members()
}

// each calls do with the rows that list lists until it answers false. Rows may be changed meanwhile.
func (v *view) each(list func(func(*cell) bool) bool, do func(row any) bool) {
	if v.writer == 0 {
		list(func(c *cell) bool { return do(c.row) })
		return
	}
	var rows []any
	list(func(c *cell) bool {
		rows = append(rows, c.row)
		return true
	})
	for _, row := range rows {
		if !do(row) {
			return
		}
	}
}

// members are the cells of a group.
func (c *cell) members() *node {
	if c == nil {
		return nil
	}
	n, _ := c.row.(*node)
	return n
}

// insert stores a row and answers the one that it replaces.
func (v *view) insert(l *layout, row any) (old any) {
	primary := l.indexes[0]
	c := &cell{key: primary.key(row), row: row}
	var before *cell
	v.roots[primary.slot], before = v.roots[primary.slot].put(v.edit(), headOf(c.key), c)
	if before != nil {
		old, c.number = before.row, before.number
	} else if l.stamped {
		c.number = v.index
	}
	c.mark = v.note(l, c.key, before, row)
	for _, i := range l.indexes[1:] {
		var now, then [1]string
		keys := i.of(row, &now)
		if old != nil {
			for _, k := range i.of(old, &then) {
				if !slices.Contains(keys, k) {
					v.leave(l, i, k, before)
				}
			}
		}
		for _, k := range keys {
			v.join(i, k, c)
		}
	}
	return old
}

// remove forgets a row.
func (v *view) remove(l *layout, row any) {
	primary := l.indexes[0]
	key := primary.key(row)
	gone := v.roots[primary.slot].get(key)
	if gone == nil {
		return
	}
	v.roots[primary.slot] = v.roots[primary.slot].remove(v.edit(), headOf(key), key)
	for _, i := range l.indexes[1:] {
		var then [1]string
		for _, k := range i.of(gone.row, &then) {
			v.leave(l, i, k, gone)
		}
	}
	at := v.note(l, key, gone, nil) - v.writer
	if v.removed == nil {
		v.removed = map[rowOf]int{}
	}
	v.removed[rowOf{l, key}] = int(at)
}

// join puts a row into a group of an index, or in the place of an older one there.
func (v *view) join(i *index, key string, c *cell) {
	v.regroup(i, key, func(g *cell) *cell {
		members, old := g.members().put(v.edit(), c.number, c)
		if old != nil {
			return v.regrouped(g, key, members, 0)
		}
		return v.regrouped(g, key, members, 1)
	})
}

// leave takes a row out of a group of an index.
func (v *view) leave(l *layout, i *index, key string, c *cell) {
	g := v.roots[i.slot].get(key)
	if g.members().at(c.number, c.key) == nil {
		return
	}
	members := g.members().remove(v.edit(), c.number, c.key)
	if members == nil {
		v.roots[i.slot] = v.roots[i.slot].remove(v.edit(), headOf(key), key)
		v.emptied = append(v.emptied, Key{l.name, i.name, key})
		return
	}
	v.regroup(i, key, func(g *cell) *cell { return v.regrouped(g, key, members, -1) })
}

// regroup changes the cell of a group, which is nil for a new one.
func (v *view) regroup(i *index, key string, next func(*cell) *cell) {
	v.roots[i.slot] = v.roots[i.slot].change(v.edit(), headOf(key), key, next)
}

// regrouped is the cell of a group with its new members. It is this writer's already where the old members are.
func (v *view) regrouped(g *cell, key string, members *node, more int) *cell {
	if g == nil {
		return &cell{key, members, v.index, uint64(more)}
	}
	if g.members().made != v.writer {
		return &cell{g.key, members, v.index, g.number + uint64(more)}
	}
	g.row, g.number = members, g.number+uint64(more)
	return g
}

// note remembers a change and answers its number; of several changes of one row the first Before and the last
// After count.
func (v *view) note(l *layout, key string, old *cell, row any) (number uint64) {
	v.changed[l.number] = v.index
	v.dirty |= 1 << l.number
	at, known := 0, false
	switch {
	case old == nil:
		at, known = v.removed[rowOf{l, key}]
	case old.mark >= v.writer:
		at, known = int(old.mark-v.writer), true
	}
	if known {
		v.changes[at].After = row
		return v.writer + uint64(at)
	}
	c := Change{Table: l.name, After: row}
	if old != nil {
		c.Before = old.row
	}
	v.changes = append(v.changes, c)
	v.memory.last++
	return v.memory.last - 1
}

// fill replaces all rows of a table; rows are in the order of their primary keys.
func (v *view) fill(l *layout, rows []any) {
	entries := make([]entry, 0, len(rows))
	for _, row := range rows {
		key := l.indexes[0].key(row)
		entries = append(entries, entry{headOf(key), &cell{key: key, row: row, number: l.created(row)}})
	}
	var building sync.WaitGroup
	for _, i := range l.indexes[1:] {
		building.Go(func() { v.roots[i.slot] = v.grouped(i, entries) })
	}
	v.roots[l.indexes[0].slot] = build(v.edit(), entries)
	building.Wait()
}

// grouped builds the tree of an index from all rows in the order of their primary keys.
func (v *view) grouped(i *index, rows []entry) *node {
	groups := map[string][]entry{}
	for _, e := range rows {
		var one [1]string
		for _, k := range i.of(e.row, &one) {
			groups[k] = append(groups[k], entry{e.number, e.cell})
		}
	}
	all := make([]entry, 0, len(groups))
	for k, members := range groups {
		slices.SortStableFunc(members, func(a, b entry) int { return cmp.Compare(a.head, b.head) })
		all = append(all, entry{headOf(k), &cell{k, build(v.edit(), members), v.index, uint64(len(members))}})
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	return build(v.edit(), all)
}
