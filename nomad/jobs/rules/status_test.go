package rules_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
)

func TestStatusFollowsAllocationsAndEvaluations(t *testing.T) {
	t.Parallel()
	plain, stopped := &api.Job{}, &api.Job{Stop: true}
	parent := &api.Job{Periodic: &api.PeriodicConfig{}}
	runs := &api.Allocation{DesiredStatus: "run", ClientStatus: "running"}
	leaves := &api.Allocation{DesiredStatus: "stop", ClientStatus: "running"}
	failed := &api.Allocation{DesiredStatus: "run", ClientStatus: "failed"}
	open, closed := &api.Evaluation{Status: "blocked"}, &api.Evaluation{Status: "complete"}
	for _, c := range []struct {
		name   string
		job    *api.Job
		allocs []*api.Allocation
		evals  []*api.Evaluation
		want   string
	}{
		{"just registered", plain, nil, []*api.Evaluation{open}, "pending"},
		{"placed", plain, []*api.Allocation{failed, runs}, []*api.Evaluation{closed}, "running"},
		{"failed, tried again later", plain, []*api.Allocation{failed}, []*api.Evaluation{closed, open}, "pending"},
		{"failed for good", plain, []*api.Allocation{failed}, []*api.Evaluation{closed}, "dead"},
		{"done and forgotten", plain, nil, nil, "dead"},
		{"being stopped", stopped, []*api.Allocation{leaves}, []*api.Evaluation{open}, "dead"},
		{"told to stop, not yet seen", stopped, []*api.Allocation{runs}, []*api.Evaluation{open}, "running"},
		{"waits for its times", parent, nil, nil, "running"},
	} {
		if got := rules.Status(c.job, slices.Values(c.allocs), slices.Values(c.evals)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
