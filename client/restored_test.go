package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// restored are servers that are heard rarely, and that refuse the assignments of a node that they do not have.
type restored struct{ *servers }

func (s restored) Invoke(ctx context.Context, method string, req, resp any) error {
	if r, ok := req.(*api.NodeAssignmentsRequest); ok {
		s.mu.Lock()
		known := s.nodes[r.NodeID] != nil
		s.mu.Unlock()
		if !known {
			return fault.New(fault.NotFound, "node %s", r.NodeID)
		}
	}
	err := s.servers.Invoke(ctx, method, req, resp)
	if out, ok := resp.(*api.NodeUpdateResponse); ok {
		out.HeartbeatTTL = time.Hour
	}
	return err
}

// Its claims and allocations wait for a node that a restored state lacks: it does not wait for its next heartbeat.
func TestNodeThatARestoreForgotRegistersAtOnce(t *testing.T) {
	b := setup(t)
	b.conf.Servers = restored{b.servers}
	b.start(t)
	b.until(t, "registered", func() bool { return b.nodes[b.node.ID()] != nil })
	time.Sleep(100 * time.Millisecond) // what the start changes is registered
	b.edit(func() {
		clear(b.nodes)
		b.allocs["a"] = &api.Allocation{ID: "a", AllocModifyIndex: b.index + 1, DesiredStatus: api.AllocDesiredStatusStop} // ends the query
	})
	b.until(t, "registered again", func() bool { return b.nodes[b.node.ID()] != nil })
}
