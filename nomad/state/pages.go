package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-memdb"
)

// The tables that every registration and every plan touches are kept in pages: a page is all that one index of such a
// table has, as a tree, and all pages are rows of one memdb table. What memdb costs is per row and per table that is
// touched; a page costs one row for all records that a transaction puts.

// pageTable is the memdb table of pages.
const pageTable = "pages"

var pageSchema = &memdb.TableSchema{Name: pageTable, Indexes: map[string]*memdb.IndexSchema{
	"id": {Name: "id", Unique: true, Indexer: pageIndexer{}},
}}

// pageIndexer finds the page of an index.
type pageIndexer struct{}

func (pageIndexer) FromObject(row any) (bool, []byte, error) {
	p, ok := row.(*page)
	return ok, []byte(p.name), nil
}

func (pageIndexer) FromArgs(args ...any) ([]byte, error) {
	if i, ok := args[0].(*index); ok {
		return i.page.key, nil
	}
	return nil, fmt.Errorf("the page of a %T", args[0])
}

// pageOf is how a page is asked for, made once.
type pageOf struct {
	key  []byte
	args []any
}

// page is one index of a table: the primary one has records, each other one groups of them.
type page struct {
	name    string
	records *node[record]
	groups  *node[group]
}

// record is a row in pages.
type record struct {
	row any
	// change is the number of the change that put the row, created its create index, 0 where rows record none.
	change, created uint64
}

// group is the records that have a key in common, in the order in which they came.
type group struct {
	members *node[record]
	// touched is the last index at which the group changed, count how many members it has.
	touched, count uint64
}

func (v *view) edit() edit { return edit{v.writer, v.index} }

// emptyPage stands in for pages that were never written.
var emptyPage page

// page returns a page for reading.
func (v *view) page(i *index) *page {
	if p := v.own[i]; p != nil {
		return p
	}
	row, err := v.rows.First(pageTable, "id", i.page.args...)
	must(err)
	if p, ok := row.(*page); ok {
		return p
	}
	return &emptyPage
}

// ownPage returns a page that this writer may change.
func (v *view) ownPage(i *index) *page {
	if p := v.own[i]; p != nil {
		return p
	}
	next := *v.page(i)
	next.name = string(i.page.key)
	v.own[i] = &next
	must(v.write.Insert(pageTable, &next))
	return &next
}

func (v *view) record(l *layout, key string) any {
	if c := v.page(l.primary()).records.get(key); c != nil {
		return c.value.row
	}
	return nil
}

func (v *view) recordsFrom(l *layout, prefix string, do func(any) bool) {
	v.page(l.primary()).records.from(prefix, func(c *cell[record]) bool { return strings.HasPrefix(c.key, prefix) && do(c.value.row) })
}

func (v *view) groupAt(i *index, key string) *cell[group] { return v.page(i).groups.get(key) }

func (v *view) members(i *index, key string) *node[record] { return membersOf(v.groupAt(i, key)) }

// groupsFrom calls do for each row of the groups whose keys have the prefix, group by group in key order, until do returns false.
func (v *view) groupsFrom(i *index, prefix string, do func(any) bool) {
	more := true
	v.page(i).groups.from(prefix, func(g *cell[group]) bool {
		if !strings.HasPrefix(g.key, prefix) {
			return false
		}
		membersOf(g).all(func(c *cell[record]) bool {
			more = do(c.value.row)
			return more
		})
		return more
	})
}

func membersOf(g *cell[group]) *node[record] {
	if g == nil {
		return nil
	}
	return g.value.members
}

func (v *view) insertRecord(l *layout, row any) (old any) {
	primary := l.primary()
	c := &cell[record]{key: primary.key(row), value: record{row: row}}
	var before *cell[record]
	p := v.ownPage(primary)
	p.records, before = p.records.put(v.edit(), headOf(c.key), c)
	if before != nil {
		old, c.value.created = before.value.row, before.value.created
	} else if l.stamped {
		c.value.created = v.index
	}
	l.stamp(row, old, v.index)
	c.value.change = v.noteRecord(l, c.key, before, row)
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
			v.upsert(i, k, c)
		}
	}
	return old
}

func (v *view) removeRecord(l *layout, key string) {
	p := v.ownPage(l.primary())
	gone := p.records.get(key)
	if gone == nil {
		return
	}
	p.records = p.records.remove(v.edit(), headOf(key), key)
	for _, i := range l.indexes[1:] {
		var then [1]string
		for _, k := range i.of(gone.value.row, &then) {
			v.leave(l, i, k, gone)
		}
	}
	at := v.noteRecord(l, key, gone, nil) - v.writer
	if v.noted == nil {
		v.noted = map[rowOf]int{}
	}
	v.noted[rowOf{l, key}] = int(at)
}

// noteRecord records a change and returns its number. Several changes of one record become one change, with the first
// Before and the last After.
func (v *view) noteRecord(l *layout, key string, old *cell[record], row any) (number uint64) {
	at, known := 0, false
	switch {
	case old == nil:
		at, known = v.noted[rowOf{l, key}]
	case old.value.change >= v.writer:
		at, known = int(old.value.change-v.writer), true
	}
	switch {
	case known:
		v.noteAgain(l, at, row)
	case old == nil:
		at = v.note(l, nil, row)
	default:
		at = v.note(l, old.value.row, row)
	}
	return v.writer + uint64(at)
}

// upsert adds a record to a group of an index, or replaces the record with its key.
func (v *view) upsert(i *index, key string, c *cell[record]) {
	p := v.ownPage(i)
	p.groups = p.groups.change(v.edit(), headOf(key), key, func(g *cell[group]) *cell[group] {
		members, old := membersOf(g).put(v.edit(), c.value.created, c)
		if old != nil {
			return v.withMembers(g, key, members, 0)
		}
		return v.withMembers(g, key, members, 1)
	})
}

// leave takes a record out of a group of an index.
func (v *view) leave(l *layout, i *index, key string, c *cell[record]) {
	g := v.groupAt(i, key)
	if membersOf(g).at(c.value.created, c.key) == nil {
		return
	}
	p := v.ownPage(i)
	members := g.value.members.remove(v.edit(), c.value.created, c.key)
	if members == nil {
		p.groups = p.groups.remove(v.edit(), headOf(key), key)
		v.left = append(v.left, Key{l.name, i.name, key})
		return
	}
	p.groups = p.groups.change(v.edit(), headOf(key), key, func(g *cell[group]) *cell[group] { return v.withMembers(g, key, members, -1) })
}

// withMembers returns the cell of a group with new members. The cell is copied unless this transaction already owns it.
func (v *view) withMembers(g *cell[group], key string, members *node[record], more int) *cell[group] {
	switch {
	case g == nil:
		return &cell[group]{key, group{members, v.index, uint64(more)}}
	case g.value.members.made != v.writer:
		return &cell[group]{g.key, group{members, v.index, g.value.count + uint64(more)}}
	}
	g.value.members, g.value.count = members, g.value.count+uint64(more)
	return g
}

func (v *view) fillPages(l *layout, rows []any) {
	entries := make([]entry[record], 0, len(rows))
	for _, row := range rows {
		key := l.primary().key(row)
		entries = append(entries, entry[record]{headOf(key), &cell[record]{key, record{row: row, created: l.created(row)}}})
	}
	var building sync.WaitGroup
	for _, i := range l.indexes[1:] {
		p := v.ownPage(i)
		building.Go(func() { p.groups = v.grouped(i, entries) })
	}
	v.ownPage(l.primary()).records = build(v.edit(), entries)
	building.Wait()
}

// grouped builds the tree of an index from all records in the order of their primary keys.
func (v *view) grouped(i *index, records []entry[record]) *node[group] {
	groups := map[string][]entry[record]{}
	for _, e := range records {
		var one [1]string
		for _, k := range i.of(e.value.row, &one) {
			if members := groups[k]; len(members) == 0 || members[len(members)-1].cell != e.cell { // a row may name a group twice
				groups[k] = append(members, entry[record]{e.value.created, e.cell})
			}
		}
	}
	all := make([]entry[group], 0, len(groups))
	for k, members := range groups {
		slices.SortStableFunc(members, func(a, b entry[record]) int { return cmp.Compare(a.head, b.head) })
		all = append(all, entry[group]{headOf(k), &cell[group]{k, group{build(v.edit(), members), v.index, uint64(len(members))}}})
	}
	slices.SortFunc(all, func(a, b entry[group]) int { return strings.Compare(a.key, b.key) })
	return build(v.edit(), all)
}
