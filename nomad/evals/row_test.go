package evals

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/apitest"
	"github.com/open-nomad/open-nomad/nomad/plan"
)

func TestEveryFieldOfARowIsFilled(t *testing.T) {
	row := stubOf(apitest.Full(&api.Evaluation{}))
	for _, f := range apitest.Fields(row) {
		if v := f.Get(row); v != f.Get(apitest.Full(&api.EvaluationStub{})) {
			t.Errorf("%s is %v", f.Path, v)
		}
	}
}

// An evaluation whose placement is refused each time uses up its attempts, whatever else its plans write down.
func TestNotesOfAPlanAreNoProgress(t *testing.T) {
	j := &api.Job{ID: "j"}
	for _, c := range []struct {
		name string
		list []*api.Allocation
		want bool
	}{
		{"nothing", nil, false},
		{"a follow-up of what failed", []*api.Allocation{{ID: "a", CreateIndex: 3, Job: j, FollowupEvalID: "e"}}, false},
		{"a placement", []*api.Allocation{{ID: "a"}}, true},
		{"a placement of an older version", []*api.Allocation{{ID: "a", Job: j}}, true},
		{"an update in place", []*api.Allocation{{ID: "a", CreateIndex: 3}}, true},
	} {
		out := &plan.Outcome{PlanResult: &api.PlanResult{NodeAllocation: map[string][]*api.Allocation{}}}
		if c.list != nil {
			out.NodeAllocation["n"] = c.list
		}
		short := &plan.Outcome{PlanResult: &api.PlanResult{NodeAllocation: nodesOf(out.NodeAllocation, bringsOn)}}
		if here, there := progressed(out), progressed(short); here != c.want || there != c.want {
			t.Errorf("%s: %v here, %v on another server", c.name, here, there)
		}
	}
}
