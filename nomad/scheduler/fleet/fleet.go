package fleet

import (
	"iter"
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

const pageRows = 256

// Fleet is all nodes at one moment.
type Fleet struct {
	index uint64
	ids   map[string]int
	free  []int
	pages []*page
	size  int
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
		e.PutAlloc(a)
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
	return &Edit{fleet: Fleet{index: f.index, ids: f.ids, free: f.free, pages: slices.Clone(f.pages), size: f.size}}
}
