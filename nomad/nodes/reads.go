package nodes

import (
	"context"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// waitDefault bounds how long assignments wait when the node does not say.
const waitDefault = 5 * time.Minute

// Assignments waits until what a node should run differs from what it knows, and tells the difference.
func (s *Service) Assignments(ctx context.Context, r *api.NodeAssignmentsRequest) (*api.NodeAssignmentsResponse, error) {
	out := &api.NodeAssignmentsResponse{}
	q := r.QueryOptions
	if q.MaxWait <= 0 {
		q.MaxWait = waitDefault
	}
	end := time.Now().Add(q.MaxWait)
	has := knownTo(r)
	for {
		var differ bool
		err := rpc.Block(ctx, s.state, &q, &out.QueryMeta, []state.Key{state.NodeAllocsKey(r.NodeID)}, func(tx *state.Txn) error {
			if differ = has.differs(tx); differ || r.MinIndex == 0 {
				out.Assigned, out.Changed = has.assigned(tx)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		// A node's own updates touch its allocations too: they are no news.
		left := time.Until(end)
		if !differ && r.MinIndex > 0 && left > 0 && out.Index > q.MinIndex {
			q.MinIndex, q.MaxWait = out.Index, left
			continue
		}
		if out.Assigned == nil {
			out.Assigned = slices.Collect(maps.Keys(r.Known))
		}
		return out, nil
	}
}

// known is what a node has of its allocations.
type known struct {
	*api.NodeAssignmentsRequest
	newest uint64
}

func knownTo(r *api.NodeAssignmentsRequest) known {
	k := known{NodeAssignmentsRequest: r}
	for _, index := range r.Known {
		k.newest = max(k.newest, index)
	}
	return k
}

// differs reports whether the servers want something else of the node than it knows. What they decided since
// has a higher index than all before; what they forgot is missing in the number.
func (k known) differs(tx *state.Txn) bool {
	n := 0
	for a := range tx.AllocsByNode(k.NodeID) {
		if n++; a.AllocModifyIndex > k.newest {
			return true
		}
	}
	return n != len(k.Known)
}

// assigned is all allocations of the node, and those that it knows otherwise or not at all.
func (k known) assigned(tx *state.Txn) (ids []string, changed []*api.Allocation) {
	ids = make([]string, 0, len(k.Known)+1)
	for a := range tx.AllocsByNode(k.NodeID) {
		ids = append(ids, a.ID)
		if index, has := k.Known[a.ID]; !has || index != a.AllocModifyIndex {
			changed = append(changed, a)
		}
	}
	return ids, changed
}

// List lists nodes.
func (s *Service) List(ctx context.Context, r *api.NodeListRequest) (*api.NodeListResponse, error) {
	out := &api.NodeListResponse{}
	err := rpc.Block(ctx, s.state, &r.QueryOptions, &out.QueryMeta, []state.Key{state.TableKey(state.TableNodes)}, func(tx *state.Txn) error {
		out.Nodes = nil
		for n := range tx.NodesPrefix(r.Prefix) {
			out.Nodes = append(out.Nodes, stub(n, r))
		}
		return nil
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
			out.Node = n.Redacted()
		}
		return nil
	})
	return out, err
}

// Allocations lists the allocations of a node.
func (s *Service) Allocations(ctx context.Context, r *api.NodeRequest) (*api.AllocFullListResponse, error) {
	out := &api.AllocFullListResponse{}
	err := rpc.Block(ctx, s.state, &r.QueryOptions, &out.QueryMeta, []state.Key{state.NodeAllocsKey(r.NodeID)}, func(tx *state.Txn) error {
		out.Allocs = nil
		for a := range tx.AllocsByNode(r.NodeID) {
			out.Allocs = append(out.Allocs, a)
		}
		return nil
	})
	return out, err
}
