package fleet

import (
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

// pageRows is the number of bits in a word; see Edit.touched.
const pageRows = 64

// Fleet is all nodes at one moment.
type Fleet struct {
	index uint64
	ids   map[string]int
	free  []int
	pages []*page
	size  int
	// last is the newest change of the chain that is being written, and older that of the chain before it.
	last, older *change
}

// change is what one edit changed. Changes are chained, newest first.
type change struct {
	before *change
	depth  int
	rows   []int32
}

// changesMax is the length at which a chain ends and another one begins.
const changesMax = 1024

// note remembers which rows changed.
func (f *Fleet) note(rows []int32) {
	c := &change{before: f.last, rows: rows}
	if c.before != nil {
		c.depth = c.before.depth + 1
	}
	if c.depth == changesMax {
		f.older, c.before, c.depth = f.last, nil, 0
	}
	f.last = c
}

// Mark is a moment in the life of a fleet.
type Mark struct{ at *change }

// Mark is the fleet's own moment.
func (f *Fleet) Mark() Mark { return Mark{f.last} }

// Since lists the rows that changed after the mark, some of them twice. It answers false when that is not
// known: the mark is another fleet's, too old, or none.
func (f *Fleet) Since(m Mark) ([]int32, bool) {
	if m.at == nil {
		return nil, false
	}
	var rows []int32
	for _, c := range [2]*change{f.last, f.older} {
		for ; c != nil; c = c.before {
			if c == m.at {
				return rows, true
			}
			if rows = append(rows, c.rows...); len(rows) > f.size {
				return nil, false
			}
		}
	}
	return nil, false
}

type page [pageRows]*Row

// New makes an empty fleet.
func New() *Fleet { return &Fleet{ids: map[string]int{}} }

// Build makes a fleet of nodes and their allocations.
func Build(index uint64, nodes iter.Seq[*api.Node], allocs iter.Seq[*api.Allocation]) *Fleet {
	e := New().Edit()
	for n := range nodes {
		e.PutNode(n)
	}
	for a := range allocs {
		e.NewAlloc(a)
	}
	return e.Done(index)
}

// Index is the raft index that the fleet reflects.
func (f *Fleet) Index() uint64 { return f.index }

// Size is one more than the highest index of a node.
func (f *Fleet) Size() int { return f.size }

// Len is the number of nodes.
func (f *Fleet) Len() int { return len(f.ids) }

// Row returns the node at the index; nil when the index is free.
func (f *Fleet) Row(i int) *Row {
	if i < 0 || i >= f.size {
		return nil
	}
	return f.pages[i/pageRows][i%pageRows]
}

// Find returns the index of a node, or -1.
func (f *Fleet) Find(id string) int {
	if i, ok := f.ids[id]; ok {
		return i
	}
	return -1
}

// Edit starts a change of the fleet, or an overlay over it.
func (f *Fleet) Edit() *Edit {
	return &Edit{fleet: Fleet{index: f.index, ids: f.ids, free: f.free, pages: f.pages, size: f.size, last: f.last, older: f.older}}
}
