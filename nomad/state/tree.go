package state

import (
	"encoding/binary"
	"slices"
)

// A tree holds cells in the order of their heads and, where these are the same, of their keys: a B+ tree whose
// nodes are copied before a writer changes them, unless the writer made them itself. So a reader keeps what it
// began with for the price of a pointer, and a writer pays for what it touches. An empty tree is nil.

// nodeMax is how many entries split a node.
const nodeMax = 32

// cell is a value under its key.
type cell[T any] struct {
	key   string
	value T
}

// edit identifies the writer of a version: its unique number, and the index that the version gets.
type edit struct{ number, index uint64 }

// entry is a cell with its head: the first bytes of its key, or of the members of a group the index at which the
// record came. Most comparisons need no more.
type entry[T any] struct {
	head uint64
	*cell[T]
}

type node[T any] struct {
	// made is the number of the writer that made the node and may change it.
	made uint64
	// changed is the last index at which something below the node changed.
	changed uint64
	// entries are the cells of a leaf, or the first cell of each kid.
	entries []entry[T]
	kids    []*node[T]
}

// headOf is the first eight bytes of a key as a number that sorts as they do.
func headOf(key string) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64([]byte(key[:8]))
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// find is the place of the first entry that is not before the key, and whether it has that very key.
func (n *node[T]) find(head uint64, key string) (at int, same bool) {
	low, high := 0, len(n.entries)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if e := &n.entries[mid]; e.head < head || e.head == head && e.key < key {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(n.entries) && n.entries[low].head == head && n.entries[low].key == key
}

// below is the place of the kid where the key belongs.
func (n *node[T]) below(head uint64, key string) int {
	at, same := n.find(head, key)
	if !same && at > 0 {
		at--
	}
	return at
}

// get returns the cell with the key in a tree that is ordered by keys, or nil.
func (n *node[T]) get(key string) *cell[T] { return n.at(headOf(key), key) }

// at returns the cell with the head and the key, or nil.
func (n *node[T]) at(head uint64, key string) *cell[T] {
	if n == nil {
		return nil
	}
	for n.kids != nil {
		n = n.kids[n.below(head, key)]
	}
	if at, same := n.find(head, key); same {
		return n.entries[at].cell
	}
	return nil
}

// all calls do for each cell in order until do returns false.
func (n *node[T]) all(do func(*cell[T]) bool) bool { return n == nil || n.ascend(0, "", do) }

// from calls do for each cell from the key on, in a tree that is ordered by keys, until do returns false.
func (n *node[T]) from(key string, do func(*cell[T]) bool) bool {
	return n == nil || n.ascend(headOf(key), key, do)
}

func (n *node[T]) ascend(head uint64, key string, do func(*cell[T]) bool) bool {
	if n.kids == nil {
		at, _ := n.find(head, key)
		for _, e := range n.entries[at:] {
			if !do(e.cell) {
				return false
			}
		}
		return true
	}
	for _, kid := range n.kids[n.below(head, key):] {
		if !kid.ascend(head, key, do) {
			return false
		}
	}
	return true
}

// walk calls do for each cell from the head and key on, or backwards from there with reverse, until do returns false.
func (n *node[T]) walk(head uint64, key string, reverse bool, do func(*cell[T]) bool) bool {
	switch {
	case n == nil:
		return true
	case reverse:
		return n.descend(head, key, do)
	}
	return n.ascend(head, key, do)
}

func (n *node[T]) descend(head uint64, key string, do func(*cell[T]) bool) bool {
	end, same := n.find(head, key)
	if same {
		end++
	}
	for i := end - 1; i >= 0; i-- {
		if n.kids != nil && !n.kids[i].descend(head, key, do) || n.kids == nil && !do(n.entries[i].cell) {
			return false
		}
	}
	return true
}

// since calls do for each cell that was put after the index, and for some of their neighbours, in order, until do
// returns false.
func (n *node[T]) since(index uint64, do func(*cell[T]) bool) bool {
	if n == nil || n.changed <= index {
		return true
	}
	for _, kid := range n.kids {
		if !kid.since(index, do) {
			return false
		}
	}
	if n.kids == nil {
		for _, e := range n.entries {
			if !do(e.cell) {
				return false
			}
		}
	}
	return true
}

// put stores a cell and returns the root and the cell that it replaces.
func (n *node[T]) put(w edit, head uint64, c *cell[T]) (root *node[T], old *cell[T]) {
	root = n.change(w, head, c.key, func(was *cell[T]) *cell[T] {
		old = was
		return c
	})
	return root, old
}

// change calls next with the cell that has the head and the key, or nil, stores its result and returns the root.
func (n *node[T]) change(w edit, head uint64, key string, next func(*cell[T]) *cell[T]) (root *node[T]) {
	if n == nil {
		return &node[T]{made: w.number, changed: w.index, entries: []entry[T]{{head, next(nil)}}}
	}
	n = n.own(w)
	added := n.insert(w, head, key, next)
	if len(n.entries) < nodeMax {
		return n
	}
	right := n.split(added)
	return &node[T]{w.number, w.index, []entry[T]{n.entries[0], right.entries[0]}, []*node[T]{n, right}}
}

// own is the node itself where the writer made it, or else a copy with room.
func (n *node[T]) own(w edit) *node[T] {
	if n.made == w.number {
		return n
	}
	c := &node[T]{made: w.number, changed: w.index, entries: grown(n.entries, len(n.entries)+2)}
	if n.kids != nil {
		c.kids = grown(n.kids, len(n.kids)+2)
	}
	return c
}

func grown[E any](list []E, room int) []E {
	return append(make([]E, 0, min(room, nodeMax)), list...)
}

// with inserts a value into a list that has less than nodeMax of them.
func with[E any](list []E, at int, value E) []E {
	if len(list) == cap(list) {
		list = grown(list, 2*len(list))
	}
	return slices.Insert(list, at, value)
}

// insert returns the cell that it added, or nil where it changed one.
func (n *node[T]) insert(w edit, head uint64, key string, next func(*cell[T]) *cell[T]) (added *cell[T]) {
	at, same := n.find(head, key)
	if n.kids == nil {
		if same {
			n.entries[at].cell = next(n.entries[at].cell)
			return nil
		}
		added = next(nil)
		n.entries = with(n.entries, at, entry[T]{head, added})
		return added
	}
	if !same && at > 0 {
		at--
	}
	kid := n.kids[at].own(w)
	added = kid.insert(w, head, key, next)
	n.kids[at], n.entries[at] = kid, kid.entries[0]
	if len(kid.entries) == nodeMax {
		right := kid.split(added)
		n.kids, n.entries = with(n.kids, at+1, right), with(n.entries, at+1, right.entries[0])
	}
	return added
}

// split moves half of the entries into a new node; only the newest where it is the last, so that keys that
// come in order fill their nodes.
func (n *node[T]) split(newest *cell[T]) (right *node[T]) {
	at := len(n.entries) / 2
	if n.entries[len(n.entries)-1].cell == newest {
		at = len(n.entries) - 1
	}
	right = &node[T]{made: n.made, changed: n.changed, entries: slices.Clone(n.entries[at:])}
	clear(n.entries[at:])
	n.entries = n.entries[:at]
	if n.kids != nil {
		right.kids = slices.Clone(n.kids[at:])
		clear(n.kids[at:])
		n.kids = n.kids[:at]
	}
	return right
}

// remove deletes the cell with the head and the key, which must exist, and returns the root.
func (n *node[T]) remove(w edit, head uint64, key string) (root *node[T]) {
	n = n.own(w)
	n.take(w, head, key)
	for len(n.kids) == 1 {
		n = n.kids[0]
	}
	if len(n.entries) == 0 {
		return nil
	}
	return n
}

func (n *node[T]) take(w edit, head uint64, key string) {
	if n.kids == nil {
		at, _ := n.find(head, key)
		n.entries = slices.Delete(n.entries, at, at+1)
		return
	}
	at := n.below(head, key)
	kid := n.kids[at].own(w)
	kid.take(w, head, key)
	if len(kid.entries) == 0 {
		n.kids, n.entries = slices.Delete(n.kids, at, at+1), slices.Delete(n.entries, at, at+1)
		return
	}
	n.kids[at], n.entries[at] = kid, kid.entries[0]
	if at+1 < len(n.kids) {
		n.merge(w, at)
	}
	if at > 0 {
		n.merge(w, at-1)
	}
}

// merge makes one of two neighbours that fill half a node together.
func (n *node[T]) merge(w edit, at int) {
	left, right := n.kids[at], n.kids[at+1]
	if len(left.entries)+len(right.entries) > nodeMax/2 {
		return
	}
	left = left.own(w)
	left.entries, left.kids = append(left.entries, right.entries...), append(left.kids, right.kids...)
	n.kids[at], n.entries[at] = left, left.entries[0]
	n.kids, n.entries = slices.Delete(n.kids, at+1, at+2), slices.Delete(n.entries, at+1, at+2)
}

// fillOf is how many entries the nodes of a tree have that is built at once.
const fillOf = nodeMax * 3 / 4

// build makes a tree of entries that are in order.
func build[T any](w edit, entries []entry[T]) *node[T] {
	var level []*node[T]
	for part := range slices.Chunk(entries, fillOf) {
		level = append(level, &node[T]{made: w.number, changed: w.index, entries: slices.Clone(part)})
	}
	for len(level) > 1 {
		var above []*node[T]
		for kids := range slices.Chunk(level, fillOf) {
			n := &node[T]{made: w.number, changed: w.index, entries: make([]entry[T], len(kids)), kids: slices.Clone(kids)}
			for i, kid := range kids {
				n.entries[i] = kid.entries[0]
			}
			above = append(above, n)
		}
		level = above
	}
	if len(level) == 0 {
		return nil
	}
	return level[0]
}
