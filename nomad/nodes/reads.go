package nodes

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/mask"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// waitDefault bounds how long assignments wait when the request has no bound.
const waitDefault = 5 * time.Minute

// Assignments waits until what a node should run differs from what it has, and returns the difference.
func (s *Service) Assignments(ctx context.Context, r *api.NodeAssignmentsRequest) (*api.NodeAssignmentsResponse, error) {
	out := &api.NodeAssignmentsResponse{}
	q := r.QueryOptions
	if q.MaxWait <= 0 {
		q.MaxWait = waitDefault
	}
	if r.Line != 0 && r.Line != s.state.Read().Line() {
		q.MinIndex = 0 // the index is one of another state
	}
	end := time.Now().Add(q.MaxWait)
	for {
		news := false
		err := rpc.Block(ctx, s.state, &q, &out.QueryMeta, []state.Key{state.NodeAllocsKey(r.NodeID)}, func(tx *state.Txn) error {
			out.Line = tx.Line()
			if r.MinIndex > 0 && r.Line == out.Line {
				news = since(tx, r, out)
			} else {
				news = compared(tx, r, out)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if portion(out) {
			return out, nil
		}
		// A node's own updates touch its allocations too: they are no news.
		left := time.Until(end)
		if news || q.MinIndex == 0 || left <= 0 || out.Index <= q.MinIndex {
			return out, nil
		}
		q.MinIndex, q.MaxWait = out.Index, left
	}
}

// portionMax bounds the allocations in one reply, in bytes: each comes with its job.
const portionMax = 16 << 20

// portion cuts a reply that does not fit into a message, and reports whether it did. Such a reply has no index: the node
// sends what it has, and receives the rest.
func portion(out *api.NodeAssignmentsResponse) bool {
	size := 0
	for i, a := range out.Changed {
		if size += a.Msgsize(); size > portionMax && i > 0 {
			out.Changed, out.Index = out.Changed[:i], 0
			return true
		}
	}
	return false
}

// since returns what changed since the last reply to the node, and whether anything did. What
// was decided since then has a higher index than all that the node has.
func since(tx *state.Txn, r *api.NodeAssignmentsRequest, out *api.NodeAssignmentsResponse) bool {
	out.Assigned, out.Changed = nil, nil
	all, fresh := tx.CountAllocsByNode(r.NodeID), 0
	for a := range tx.AllocsByNodeSince(r.NodeID, r.Newest) {
		if a.AllocModifyIndex > r.Newest {
			out.Changed = append(out.Changed, a)
		}
		if a.CreateIndex > r.Newest {
			fresh++
		}
	}
	if out.Kept = all-fresh == r.Count; !out.Kept {
		out.Assigned = make([]string, 0, all)
		for a := range tx.AllocsByNode(r.NodeID) {
			out.Assigned = append(out.Assigned, a.ID)
		}
	}
	return len(out.Changed) > 0 || !out.Kept
}

// compared returns what differs from what the node has, and whether anything does.
func compared(tx *state.Txn, r *api.NodeAssignmentsRequest, out *api.NodeAssignmentsResponse) bool {
	out.Assigned, out.Changed, out.Kept = nil, nil, false
	known := 0
	for a := range tx.AllocsByNode(r.NodeID) {
		out.Assigned = append(out.Assigned, a.ID)
		index, has := r.Known[a.ID]
		if has {
			known++
		}
		if !has || index != a.AllocModifyIndex {
			out.Changed = append(out.Changed, a)
		}
	}
	return len(out.Changed) > 0 || known != len(r.Known)
}

// List lists nodes by id, of one node pool when it is named.
func (s *Service) List(ctx context.Context, r *api.NodeListRequest) (*api.NodeListResponse, error) {
	out := &api.NodeListResponse{}
	var err error
	keys := []state.Key{state.TableKey(state.TableNodes)}
	out.Nodes, err = page.Read(ctx, s.state, &r.QueryOptions, &out.QueryMeta, keys, func(tx *state.Txn) page.List[*api.Node, *api.NodeStub] {
		return page.List[*api.Node, *api.NodeStub]{
			Walk:  tx.NodeSpan,
			Token: func(n *api.Node) string { return n.ID },
			Keep: func(n *api.Node) bool {
				return r.NodePool == "" || r.NodePool == api.NodePoolAll || r.NodePool == n.NodePool
			},
			View: func(n *api.Node) any { return mask.Redacted(n) },
			Row:  func(n *api.Node) *api.NodeStub { return stub(n, r) },
		}
	})
	return out, err
}

func stub(n *api.Node, r *api.NodeListRequest) *api.NodeStub {
	address, _, err := net.SplitHostPort(n.HTTPAddr)
	if err != nil {
		address = n.HTTPAddr
	}
	out := &api.NodeStub{
		Address:               address,
		ID:                    n.ID,
		Datacenter:            n.Datacenter,
		Name:                  n.Name,
		NodeClass:             n.NodeClass,
		NodePool:              n.NodePool,
		Version:               n.Attributes["nomad.version"],
		Drain:                 n.Drain,
		SchedulingEligibility: n.SchedulingEligibility,
		Status:                n.Status,
		StatusDescription:     n.StatusDescription,
		Drivers:               n.Drivers,
		LastDrain:             n.LastDrain,
		CreateIndex:           n.CreateIndex,
		ModifyIndex:           n.ModifyIndex,
		HostVolumes:           n.HostVolumes,
	}
	if r.Resources {
		out.NodeResources, out.ReservedResources = n.NodeResources, n.ReservedResources
	}
	if r.OS {
		out.Attributes = map[string]string{"os.name": n.Attributes["os.name"]}
	}
	return out
}

// Get reads one node.
func (s *Service) Get(ctx context.Context, r *api.NodeRequest) (*api.NodeGetResponse, error) {
	out := &api.NodeGetResponse{}
	err := rpc.Block(ctx, s.state, &r.QueryOptions, &out.QueryMeta, []state.Key{state.NodeKey(r.NodeID)}, func(tx *state.Txn) error {
		out.Node = nil
		if n := tx.Node(r.NodeID); n != nil {
			out.Node = mask.Redacted(n)
			out.Node.Events = seenEvents(ctx, tx, n.Events)
		}
		return nil
	})
	return out, err
}

// seenEvents leaves out events about allocations, such as mounts, of namespaces that the caller does not see.
func seenEvents(ctx context.Context, tx *state.Txn, events []*api.NodeEvent) []*api.NodeEvent {
	if !access.Enabled(ctx) || access.Of(ctx).Rights.IsManagement() {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), func(e *api.NodeEvent) bool {
		id, about := e.Details["alloc_id"]
		a := tx.Alloc(id)
		return about && (a == nil || !access.Of(ctx).Rights.Sees(a.Namespace))
	})
}

// Allocations lists the allocations of a node.
func (s *Service) Allocations(ctx context.Context, r *api.NodeRequest) (*api.AllocFullListResponse, error) {
	out := &api.AllocFullListResponse{}
	err := rpc.Block(ctx, s.state, &r.QueryOptions, &out.QueryMeta, []state.Key{state.NodeAllocsKey(r.NodeID)}, func(tx *state.Txn) error {
		out.Allocs = nil
		for a := range tx.AllocsByNode(r.NodeID) {
			if access.Sees(ctx, a.Namespace) {
				out.Allocs = append(out.Allocs, a)
			}
		}
		return nil
	})
	return out, err
}
