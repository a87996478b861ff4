package allocs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/allocs"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// nodes are the connected nodes with what they reply.
type nodes map[string]func(*api.DiskDataRequest) (*api.DiskDataResponse, error)

func (n nodes) Node(id string) (wire.Caller, error) {
	if serve := n[id]; serve != nil {
		return caller(serve), nil
	}
	return nil, fault.New(fault.Unavailable, "node %q is not connected", id)
}

type caller func(*api.DiskDataRequest) (*api.DiskDataResponse, error)

func (c caller) Invoke(_ context.Context, method string, req, resp any) error {
	if method != wire.ClientAllocDiskData.Name {
		return errors.New("called " + method)
	}
	out, err := c(req.(*api.DiskDataRequest))
	if err == nil {
		*resp.(*api.DiskDataResponse) = *out
	}
	return err
}

func TestDataGoesToTheNodeOfTheReplacementOnly(t *testing.T) {
	t.Parallel()
	var asked *api.DiskDataRequest
	var failure error
	earlier, got := "", ""
	s := state.New()
	service := allocs.New(allocs.Config{Log: hclog.NewNullLogger(), State: s, Raft: fsm.NewLocal(s, registry()), Nodes: nodes{
		"n1": func(r *api.DiskDataRequest) (*api.DiskDataResponse, error) {
			asked = r
			return &api.DiskDataResponse{End: true, Earlier: earlier}, failure
		},
	}})
	edit := func(change func(a *api.Allocation), ids ...string) {
		tx := s.Write(s.Read().Index()+1, time.Now())
		for _, id := range ids {
			a := *tx.Alloc(id)
			change(&a)
			tx.PutAlloc(&a)
		}
		tx.Commit()
	}
	status := func(node, status string) {
		tx := s.Write(s.Read().Index()+1, time.Now())
		tx.PutNode(&api.Node{ID: node, Status: status})
		tx.Commit()
	}
	disk := func(migrate bool) func(a *api.Allocation) {
		return func(a *api.Allocation) {
			j, g := *a.Job, *a.Job.TaskGroups[0]
			g.EphemeralDisk = &api.EphemeralDisk{SizeMB: 10, Sticky: true, Migrate: migrate}
			j.TaskGroups = []*api.TaskGroup{&g}
			a.Job = &j
		}
	}
	for id, node := range map[string]string{"a1": "n1", "a2": "n2", "a3": "n3", "other": "n1"} {
		place(s, id, node)
		status(node, api.NodeStatusReady)
	}
	edit(disk(true), "a1", "a2", "a3", "other")
	edit(func(a *api.Allocation) { a.PreviousAllocation, a.DesiredStatus = "a1", api.AllocDesiredStatusRun }, "a2")
	edit(func(a *api.Allocation) { a.PreviousAllocation = "a2" }, "a3")
	run := func(a *api.Allocation) { a.DesiredStatus = api.AllocDesiredStatusRun }
	stop := func(a *api.Allocation) { a.DesiredStatus = api.AllocDesiredStatusStop }
	ask := func(node, alloc, from string) error {
		asked = nil
		out, err := service.DiskData(t.Context(), &api.DiskDataRequest{NodeID: node, NodeSecret: "secret", AllocID: alloc, From: from, Tasks: []string{"t"}})
		if err == nil {
			got = out.Earlier
		}
		return err
	}
	refused := func(name string, err error, class fault.Class, text string) {
		t.Helper()
		if !errors.Is(err, class) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", name, err)
		}
		if failure == nil && asked != nil {
			t.Errorf("%s: the node was asked", name)
		}
	}

	refused("it runs", ask("n2", "a2", "a1"), fault.Timeout, "is not to stop")
	edit(stop, "a1", "other")
	if err := ask("n2", "a2", "a1"); err != nil || asked == nil || asked.NodeSecret != "" || asked.From != "a1" || len(asked.Tasks) != 1 {
		t.Errorf("the node of the replacement: %v, asked %+v", err, asked)
	}
	if err := ask("n3", "a3", "a1"); err != nil {
		t.Errorf("the replacement of the replacement: %v", err)
	}
	if earlier = "other"; ask("n2", "a2", "a1") != nil || got != "" {
		t.Errorf("a node refers to the data of allocation %q", got)
	}
	edit(func(a *api.Allocation) { a.PreviousAllocation = "a0" }, "a1")
	if earlier = "a0"; ask("n2", "a2", "a1") != nil || got != "a0" {
		t.Errorf("the data of the predecessor is in %q", got)
	}
	edit(func(a *api.Allocation) { a.PreviousAllocation = "" }, "a1")
	refused("a foreign node", ask("n3", "a2", "a1"), fault.Denied, "is not placed on node n3")
	refused("another allocation", ask("n2", "a2", "other"), fault.Denied, "does not replace")
	refused("its own data", ask("n2", "a2", "a2"), fault.Denied, "does not replace")
	refused("a later one", ask("n2", "a2", "a3"), fault.Denied, "does not replace")
	refused("not here yet", ask("n2", "unknown", "a1"), fault.Timeout, "does not have allocation")
	edit(disk(false), "a2")
	refused("it does not migrate", ask("n2", "a2", "a1"), fault.Denied, "does not migrate")
	edit(disk(true), "a2")
	edit(stop, "a2")
	refused("it is to stop", ask("n2", "a2", "a1"), fault.Invalid, "needs no data")
	edit(run, "a2")
	status("n1", api.NodeStatusDown)
	refused("a node that is down", ask("n2", "a2", "a1"), fault.NotFound, "node n1 is down")
	status("n1", api.NodeStatusReady)
	edit(stop, "a2")
	refused("a node that is not connected", ask("n3", "a3", "a2"), fault.Timeout, "not connected")
	edit(run, "a2")

	// For fault.Unavailable a node leaves its server.
	failure = fault.New(fault.Unavailable, "the connection is lost")
	refused("a lost connection", ask("n2", "a2", "a1"), fault.Timeout, "connection is lost")
	failure = fault.New(fault.Conflict, "has not ended")
	refused("a task that runs", ask("n2", "a2", "a1"), fault.Conflict, "has not ended")

	tx := s.Write(s.Read().Index()+1, time.Now())
	tx.DeleteAlloc("a1")
	tx.Commit()
	failure = nil
	refused("it is forgotten", ask("n2", "a2", "a1"), fault.NotFound, "do not have allocation a1 any more")
}
