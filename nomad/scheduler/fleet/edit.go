package fleet

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// Edit is a fleet being changed. It copies what it touches; the fleet it began from stays as it was.
type Edit struct {
	fleet  Fleet
	ownIDs bool
	// touched has one word per page, and in it one bit per row, for those that are the edit's own. It is nil
	// as long as all pages are the fleet's.
	touched []uint64
}

// Row returns the node at the index as the edit has it.
func (e *Edit) Row(i int) *Row { return e.fleet.Row(i) }

// Find returns the index of a node, or -1.
func (e *Edit) Find(id string) int { return e.fleet.Find(id) }

// Size is one more than the highest index of a node.
func (e *Edit) Size() int { return e.fleet.size }

// Done ends the edit.
func (e *Edit) Done(index uint64) *Fleet {
	f := e.fleet
	f.index = index
	rows := e.Touched()
	for _, i := range rows {
		if r := f.Row(int(i)); r != nil {
			r.loads.compact()
		}
	}
	f.note(rows)
	return &f
}

// Touched are the indexes of the rows that differ from the fleet that the edit began from, lowest first.
func (e *Edit) Touched() []int32 {
	n := 0
	for _, w := range e.touched {
		n += bits.OnesCount64(w)
	}
	rows := make([]int32, 0, n)
	for p, w := range e.touched {
		for ; w != 0; w &= w - 1 {
			rows = append(rows, int32(p*pageRows+bits.TrailingZeros64(w)))
		}
	}
	return rows
}

// PutNode adds a node, or replaces what is known of it; its allocations stay.
func (e *Edit) PutNode(n *api.Node) {
	i := e.fleet.Find(n.ID)
	fresh := newRow(n)
	if i < 0 {
		e.set(e.newIndex(n.ID), fresh)
		return
	}
	old := e.fleet.Row(i)
	fresh.loads = old.loads
	fresh.loads.own()
	for _, l := range fresh.Loads() {
		fresh.take(l)
	}
	e.set(i, fresh)
}

// DeleteNode forgets a node and the allocations on it.
func (e *Edit) DeleteNode(id string) {
	i := e.fleet.Find(id)
	if i < 0 {
		return
	}
	e.set(i, nil)
	e.takeIDs()
	delete(e.fleet.ids, id)
	e.fleet.free = append(slices.Clip(e.fleet.free), i)
}

// PutAlloc counts an allocation on its node, or no longer when the node is done with it.
func (e *Edit) PutAlloc(a *api.Allocation) {
	i := e.fleet.Find(a.NodeID)
	if i < 0 {
		return
	}
	e.Remove(i, a.ID)
	if a.ClientTerminal() {
		return
	}
	e.Add(i, a.ID, LoadOfAlloc(a))
}

// NewAlloc counts an allocation that was not there before.
func (e *Edit) NewAlloc(a *api.Allocation) {
	if i := e.fleet.Find(a.NodeID); i >= 0 && !a.ClientTerminal() {
		e.Add(i, a.ID, LoadOfAlloc(a))
	}
}

// DeleteAlloc no longer counts an allocation.
func (e *Edit) DeleteAlloc(a *api.Allocation) {
	if i := e.fleet.Find(a.NodeID); i >= 0 {
		e.Remove(i, a.ID)
	}
}

// Add counts the load of an allocation on the node at the index; the allocation must not count there yet.
func (e *Edit) Add(i int, alloc string, l Load) {
	r := e.own(i)
	r.take(l)
	r.loads.add(alloc, l)
}

// Remove no longer counts the allocation's load on the node and answers what it was.
func (e *Edit) Remove(i int, alloc string) (Load, bool) {
	at, found := e.fleet.Row(i).loads.find(alloc)
	if !found {
		return Load{}, false
	}
	r := e.own(i)
	l := r.loads.remove(at)
	r.release(l)
	return l, true
}

// own returns a row that this edit may change.
func (e *Edit) own(i int) *Row {
	old := e.fleet.Row(i)
	if p := i / pageRows; p < len(e.touched) && e.touched[p]&(1<<(i%pageRows)) != 0 {
		return old
	}
	r := *old
	r.loads.own()
	r.shares = slices.Clone(r.shares)
	e.set(i, &r)
	return &r
}

func (e *Edit) set(i int, r *Row) {
	e.takePages()
	p := i / pageRows
	if e.touched[p] == 0 {
		copied := *e.fleet.pages[p]
		e.fleet.pages[p] = &copied
	}
	e.fleet.pages[p][i%pageRows] = r
	e.touched[p] |= 1 << (i % pageRows)
}

func (e *Edit) takePages() {
	if e.touched == nil {
		e.fleet.pages, e.touched = slices.Clone(e.fleet.pages), make([]uint64, len(e.fleet.pages))
	}
}

func (e *Edit) newIndex(id string) int {
	e.takeIDs()
	e.takePages()
	i := e.fleet.size
	if n := len(e.fleet.free); n > 0 {
		i, e.fleet.free = e.fleet.free[n-1], slices.Clip(e.fleet.free[:n-1])
	} else {
		e.fleet.size++
		if i/pageRows == len(e.fleet.pages) {
			e.fleet.pages, e.touched = append(e.fleet.pages, new(page)), append(e.touched, 0)
		}
	}
	e.fleet.ids[id] = i
	return i
}

func (e *Edit) takeIDs() {
	if !e.ownIDs {
		e.fleet.ids, e.ownIDs = maps.Clone(e.fleet.ids), true
	}
}
