package nodes_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// TestSummariesKeepNodesInStep follows a node that tells only a summary of what it has while allocations come,
// change, end and are forgotten, and compares what it has with the state after every answer.
func TestSummariesKeepNodesInStep(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := open(t, nodes.Heartbeat{})
		known := map[string]uint64{}
		req := &api.NodeAssignmentsRequest{NodeID: "n1", QueryOptions: api.QueryOptions{MaxWait: time.Millisecond}}
		made := 0
		for range rapid.IntRange(1, 12).Draw(rt, "answers") {
			for range rapid.IntRange(0, 4).Draw(rt, "commits") {
				tx := r.state.Write(r.state.Read().Index()+1, time.Now())
				change(rt, tx, &made)
				tx.Commit()
			}
			out, err := r.Assignments(t.Context(), req)
			if err != nil {
				rt.Fatal(err)
			}
			maps.DeleteFunc(known, func(id string, _ uint64) bool { return !out.Kept && !slices.Contains(out.Assigned, id) })
			for _, a := range out.Changed {
				known[a.ID] = a.AllocModifyIndex
			}
			want := map[string]uint64{}
			for a := range r.state.Read().AllocsByNode("n1") {
				want[a.ID] = a.AllocModifyIndex
			}
			if !maps.Equal(known, want) {
				rt.Fatalf("the node has %v, the servers want %v", known, want)
			}
			req.MinIndex, req.Line, req.Count, req.Newest = out.Index, out.Line, len(known), 0
			for _, modified := range known {
				req.Newest = max(req.Newest, modified)
			}
		}
	})
}

// change does something to the allocations of the node.
func change(rt *rapid.T, tx *state.Txn, made *int) {
	have := slices.Collect(tx.AllocsByNode("n1"))
	what := rapid.IntRange(0, 3).Draw(rt, "what")
	if what == 0 || len(have) == 0 {
		*made++
		tx.PutAlloc(&api.Allocation{ID: fmt.Sprint("a", *made), Namespace: "default", JobID: "j", NodeID: "n1", AllocModifyIndex: tx.Index()})
		return
	}
	a := *rapid.SampledFrom(have).Draw(rt, "alloc")
	switch what {
	case 1:
		tx.DeleteAlloc(a.ID)
	case 2:
		a.ClientStatus = api.AllocClientStatusRunning // the node's own report
		tx.PutAlloc(&a)
	default:
		a.AllocModifyIndex = tx.Index()
		tx.PutAlloc(&a)
	}
}

// TestRestoredStatesAreComparedWhole puts an older state in the place of the one that a node knows.
func TestRestoredStatesAreComparedWhole(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	write := func(do func(tx *state.Txn)) {
		tx := r.state.Write(r.state.Read().Index()+1, time.Now())
		do(tx)
		tx.Commit()
	}
	put := func(id string) func(tx *state.Txn) {
		return func(tx *state.Txn) {
			tx.PutAlloc(&api.Allocation{ID: id, Namespace: "default", JobID: "j", NodeID: "n1", AllocModifyIndex: tx.Index()})
		}
	}
	write(put("old"))
	saved := dumped(t, r.state)
	write(func(tx *state.Txn) { tx.DeleteAlloc("old") })
	write(put("new"))
	first, err := r.Assignments(t.Context(), &api.NodeAssignmentsRequest{NodeID: "n1"})
	if err != nil || len(first.Changed) != 1 {
		t.Fatalf("%+v %v", first, err)
	}
	if err := r.state.Restore(saved); err != nil {
		t.Fatal(err)
	}
	write(func(tx *state.Txn) { put("old")(tx); put("other")(tx); tx.DeleteAlloc("other") })
	out, err := r.Assignments(t.Context(), &api.NodeAssignmentsRequest{
		NodeID: "n1", Line: first.Line, Newest: first.Changed[0].AllocModifyIndex, Count: 1,
		QueryOptions: api.QueryOptions{MinIndex: first.Index, MaxWait: time.Millisecond},
	})
	if err != nil || out.Kept || !slices.Equal(out.Assigned, []string{"old"}) || len(out.Changed) != 1 {
		t.Errorf("after the restore: %+v %v", out, err)
	}
}

func dumped(t *testing.T, s *state.Store) *bytes.Buffer {
	var b bytes.Buffer
	if err := s.Read().Dump(&b); err != nil {
		t.Fatal(err)
	}
	return &b
}
