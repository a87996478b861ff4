package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// portions answers two allocations at a time. What is gone is forgotten after the first answer.
type portions struct {
	Servers
	allocs map[string]*api.Allocation
	gone   string
	asked  int
}

func (p *portions) Invoke(_ context.Context, _ string, req, resp any) error {
	r, out := req.(*api.NodeAssignmentsRequest), resp.(*api.NodeAssignmentsResponse)
	if p.asked++; p.asked == 2 {
		delete(p.allocs, p.gone)
	}
	out.Index, out.Kept = 9, r.Line != 0
	for _, id := range slices.Sorted(maps.Keys(p.allocs)) {
		a := p.allocs[id]
		if r.Line == 0 {
			out.Assigned = append(out.Assigned, id)
			if r.Known[id] == a.AllocModifyIndex {
				continue
			}
		} else if a.AllocModifyIndex <= r.Newest {
			continue
		}
		if len(out.Changed) == 2 {
			out.Index = 0
		} else {
			out.Changed = append(out.Changed, a)
		}
	}
	return nil
}

func TestAssignmentsThatComeInPortionsAreOneAnswer(t *testing.T) {
	for _, line := range []uint64{0, 7} {
		p := &portions{allocs: map[string]*api.Allocation{}, gone: "a1"}
		for i := range 7 {
			id := fmt.Sprint("a", i)
			p.allocs[id] = &api.Allocation{ID: id, AllocModifyIndex: 8}
		}
		p.allocs["old"] = &api.Allocation{ID: "old", AllocModifyIndex: 3}
		c := &Client{conf: Config{Servers: p}}
		known := map[string]uint64{"old": 3}
		out, err := c.assignments(t.Context(), known, line, line, assignWait)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range out.Changed {
			got = append(got, a.ID)
		}
		if fmt.Sprint(got) != "[a0 a2 a3 a4 a5 a6]" || out.Index != 9 || out.Kept || len(out.Assigned) != 7 || len(known) != 1 {
			t.Errorf("line %d: changed %v, index %d, kept %v, assigned %v, known %v", line, got, out.Index, out.Kept, out.Assigned, known)
		}
	}
}
