package fleet

import (
	"iter"
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

const pageRows = 256

// Row is one node: what it has for tasks and what of that is used. Rows are read-only.
type Row struct {
	Node *api.Node
	// Total is what tasks may use: the node's resources less what is reserved for the host.
	Total Amount
	Used  Amount
	// Ports are those reserved for the host and those given to allocations.
	Ports Ports
	// host are the ports reserved for the host.
	host  Ports
	loads held
}

// Count is how many allocations count.
func (r *Row) Count() int { return r.loads.len() }

// Loads are the allocations that count, by id.
func (r *Row) Loads() iter.Seq2[string, Load] { return r.loads.all() }

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

func newRow(n *api.Node) *Row {
	r := &Row{Node: n}
	if n.NodeResources != nil {
		r.Total = Amount{n.NodeResources.Cpu.CpuShares, n.NodeResources.Memory.MemoryMB, n.NodeResources.Disk.DiskMB}
	}
	if res := n.ReservedResources; res != nil {
		r.Total = r.Total.Sub(Amount{int64(res.Cpu.CpuShares), int64(res.Memory.MemoryMB), int64(res.Disk.DiskMB)})
		r.host = ParsePorts(r.host, res.Networks.ReservedHostPorts)
	}
	r.Ports = r.host
	return r
}
