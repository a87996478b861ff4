package allocs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	// pagesMax is the number of pages of data that a server passes on at the same time. A page has up to 4 MiB.
	pagesMax = 8
	// chainMax is the number of predecessors of an allocation that may have its data.
	chainMax = 16
	// nodeWait limits the wait for the node that has the data; it is below that of the node which asks.
	nodeWait = 20 * time.Second
)

// DiskData reads a page of the data of an allocation from its node, for a node where its replacement is placed. An error of class
// fault.Conflict means that the allocation has not ended yet or other copies come first, fault.Timeout that the node cannot be asked now.
// The class is not fault.Unavailable, for which a node asks another server.
func (s *Service) DiskData(ctx context.Context, r *api.DiskDataRequest) (*api.DiskDataResponse, error) {
	from, err := source(s.state.Read(), r)
	if err != nil {
		return nil, err
	}
	if s.nodes == nil {
		return nil, fault.New(fault.Timeout, "this server reaches no nodes")
	}
	node, err := s.nodes.Node(from.NodeID)
	if err != nil {
		return nil, fault.New(fault.Timeout, "%v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, nodeWait)
	defer cancel()
	select {
	case s.pages <- struct{}{}:
		defer func() { <-s.pages }()
	case <-ctx.Done():
		return nil, fault.New(fault.Conflict, "other copies come first")
	}
	page, err := wire.ClientAllocDiskData.Call(ctx, node, &api.DiskDataRequest{AllocID: r.AllocID, From: r.From, Tasks: r.Tasks, Cursor: r.Cursor})
	switch {
	case errors.Is(err, fault.Unavailable), errors.Is(err, context.DeadlineExceeded):
		return nil, fault.New(fault.Timeout, "node %s: %v", from.NodeID, err)
	case err != nil:
		return nil, fmt.Errorf("node %s: %w", from.NodeID, err)
	}
	if page.Earlier != from.PreviousAllocation { // a node decides nothing about other allocations
		page.Earlier = ""
	}
	return page, nil
}

// source returns the allocation whose data is asked for, if the node may have it.
func source(tx *state.Txn, r *api.DiskDataRequest) (*api.Allocation, error) {
	to := tx.Alloc(r.AllocID)
	if to == nil {
		return nil, fault.New(fault.Timeout, "this server does not have allocation %q yet", r.AllocID)
	}
	g := to.Group()
	switch {
	case to.NodeID != r.NodeID:
		return nil, fault.New(fault.Denied, "allocation %s is not placed on node %s", to.ID, r.NodeID)
	case g == nil || g.EphemeralDisk == nil || !g.EphemeralDisk.Migrate:
		return nil, fault.New(fault.Denied, "the ephemeral disk of allocation %s does not migrate", to.ID)
	case to.ServerTerminal():
		return nil, fault.New(fault.Invalid, "allocation %s is to stop and needs no data", to.ID)
	}
	from := to
	for n := 0; from.ID != r.From || n == 0; n++ {
		id := from.PreviousAllocation
		if id == "" || n == chainMax {
			return nil, fault.New(fault.Denied, "allocation %s does not replace allocation %q", to.ID, r.From)
		}
		if from = tx.Alloc(id); from == nil {
			return nil, fault.New(fault.NotFound, "the servers do not have allocation %s any more", id)
		}
	}
	node := tx.Node(from.NodeID)
	switch {
	case node == nil:
		return nil, fault.New(fault.NotFound, "node %s is removed", from.NodeID)
	case node.Status == api.NodeStatusDown || node.Status == api.NodeStatusDisconnected:
		return nil, fault.New(fault.NotFound, "node %s is %s", from.NodeID, node.Status)
	case !from.Terminal():
		return nil, fault.New(fault.Timeout, "allocation %s has not ended and is not to stop", from.ID)
	}
	return from, nil
}
