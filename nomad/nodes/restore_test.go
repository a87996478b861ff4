package nodes_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes"
)

// A node that waits, or asks, with an index of before an older snapshot was restored is told at once what it should
// run now.
func TestARestoreIsToldToNodesAtOnce(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.register(node("n"))
	var dump bytes.Buffer
	if err := r.state.Read().Dump(&dump); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(5) {
		tx := r.state.Write(1000+i, time.Now())
		tx.PutAlloc(&api.Allocation{
			ID: fmt.Sprint("a", i), NodeID: "n", Namespace: "default", JobID: "j", AllocModifyIndex: 1000 + i,
			DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusRunning,
		})
		tx.Commit()
	}
	first, err := r.Assignments(t.Context(), &api.NodeAssignmentsRequest{NodeID: "n", NodeSecret: "secret of n"})
	if err != nil || len(first.Changed) != 5 {
		t.Fatalf("%+v %v", first, err)
	}
	ask := func() (*api.NodeAssignmentsResponse, error) {
		return r.Assignments(t.Context(), &api.NodeAssignmentsRequest{
			NodeID: "n", NodeSecret: "secret of n", Line: first.Line, Newest: 1004, Count: 5,
			QueryOptions: api.QueryOptions{MinIndex: first.Index, MaxWait: time.Hour},
		})
	}
	type answer struct {
		out *api.NodeAssignmentsResponse
		err error
	}
	waits := make(chan answer, 1)
	go func() {
		out, err := ask()
		waits <- answer{out, err}
	}()
	if err := r.state.Restore(&dump); err != nil {
		t.Fatal(err)
	}
	again, err := ask()
	for what, got := range map[string]answer{"who waited": <-waits, "who asks again": {again, err}} {
		if got.err != nil || len(got.out.Assigned) != 0 || got.out.Line == first.Line {
			t.Errorf("%s: %+v %v", what, got.out, got.err)
		}
	}
}

// The end of an allocation, which an older state does not know, is told again: nothing else of it has changed.
func TestNodeTellsAgainHowItsAllocationsEndedAfterARestore(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.register(node("n"))
	tx := r.state.Write(r.state.Read().Index()+1, time.Now())
	for id, status := range map[string]string{"runs": api.AllocClientStatusRunning, "failed": api.AllocClientStatusFailed} {
		tx.PutAlloc(&api.Allocation{ID: id, NodeID: "n", Namespace: "default", JobID: "j", AllocModifyIndex: 3, DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: status})
	}
	tx.PutRollback(&api.Rollback{At: 7, Unreported: []string{"n"}})
	tx.Commit()
	n := node("n")
	if resp, err := r.Register(t.Context(), &api.NodeRegisterRequest{Node: n, Rollback: 7}); err != nil || resp.Rollback != 0 {
		t.Fatalf("%+v %v", resp, err)
	}
	out, err := r.Assignments(t.Context(), &api.NodeAssignmentsRequest{NodeID: "n", NodeSecret: "secret of n", Known: map[string]uint64{"runs": 3, "failed": 3}})
	if err != nil || len(out.Changed) != 1 || out.Changed[0].ID != "runs" {
		t.Errorf("%+v %v", out, err)
	}
}
