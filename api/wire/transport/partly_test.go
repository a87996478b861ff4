package transport_test

import (
	"context"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

func TestRowsOfAllocationsGoWithoutTheirJobs(t *testing.T) {
	t.Parallel()
	held := &api.Allocation{
		ID: "a1", Job: &api.Job{ID: "web", Type: "service", Version: 3}, Metrics: &api.AllocationMetric{NodesEvaluated: 5},
		TaskStates: map[string]*api.TaskState{"t": {State: "running"}},
	}
	port, d, _ := open(t, wire.AllocList.Handle(func(context.Context, *api.AllocListRequest) (*api.AllocRowsResponse, error) {
		return &api.AllocRowsResponse{Allocs: []*api.Allocation{held, {ID: "a2"}}, QueryMeta: api.QueryMeta{Index: 7}}, nil
	}))
	out, err := wire.AllocList.Call(t.Context(), connect(t, port.Addr(), d), &api.AllocListRequest{})
	if err != nil || out.Index != 7 || len(out.Allocs) != 2 || out.Allocs[1].ID != "a2" || out.Allocs[1].Job != nil {
		t.Fatalf("%+v %v", out, err)
	}
	got := out.Allocs[0]
	if got.ID != "a1" || got.Metrics != nil || got.TaskStates["t"].State != "running" {
		t.Errorf("came as %+v", got)
	}
	if j := got.Job; j.ID != "" || j.Type != "service" || j.Version != 3 {
		t.Errorf("its job came as %+v", j)
	}
	if held.Job.ID != "web" || held.Metrics == nil {
		t.Errorf("what was sent was changed: %+v", held)
	}
}
