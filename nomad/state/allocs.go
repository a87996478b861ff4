package state

import (
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

// AllocKey is one allocation's row.
func AllocKey(id string) Key { return Key{TableAllocs, "id", id} }

// NodeAllocsKey is all allocations of a node.
func NodeAllocsKey(node string) Key { return Key{TableAllocs, "node", node} }

// JobAllocsKey is all allocations of a job.
func JobAllocsKey(ns, job string) Key { return Key{TableAllocs, "job", rowKey(ns, job)} }

// EvalAllocsKey is all allocations that an evaluation placed.
func EvalAllocsKey(eval string) Key { return Key{TableAllocs, "eval", eval} }

// Alloc returns the allocation, or nil. Its job is shared with other allocations.
func (t *Txn) Alloc(id string) *api.Allocation { return allocs.get(t, id) }

// Allocs lists the allocations of a namespace by id.
func (t *Txn) Allocs(ns string) iter.Seq[*api.Allocation] {
	return filter(allocs.all(t), func(a *api.Allocation) bool {
		return ns == api.AllNamespaces || a.Namespace == ns
	})
}

// AllocsByNode lists the allocations of a node.
func (t *Txn) AllocsByNode(node string) iter.Seq[*api.Allocation] {
	return allocs.list(t, "node", node)
}

// AllocsByNodeSince lists the allocations of a node that were put after the index, and some of the others.
func (t *Txn) AllocsByNodeSince(node string, index uint64) iter.Seq[*api.Allocation] {
	return allocs.since(t, "node", node, index)
}

// CountAllocsByNode is how many allocations of a node are known.
func (t *Txn) CountAllocsByNode(node string) int { return allocs.count(t, "node", node) }

// AllocsByJob lists the allocations of a job.
func (t *Txn) AllocsByJob(ns, job string) iter.Seq[*api.Allocation] {
	return allocs.list(t, "job", rowKey(ns, job))
}

// AllocsByEval lists the allocations that an evaluation placed.
func (t *Txn) AllocsByEval(eval string) iter.Seq[*api.Allocation] {
	return allocs.list(t, "eval", eval)
}

// PutAlloc stores the allocation.
func (t *Txn) PutAlloc(a *api.Allocation) {
	old := allocs.put(t, a)
	t.summarizeAlloc(old, a)
	t.registerServices(old, a)
}

// DeleteAlloc deletes the allocation and reports whether there was one.
func (t *Txn) DeleteAlloc(id string) bool {
	old := t.Alloc(id)
	t.registerServices(old, nil)
	return allocs.remove(t, old)
}
