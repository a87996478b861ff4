package rules_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
)

func TestStatusFollowsAllocationsAndEvaluations(t *testing.T) {
	t.Parallel()
	system := &api.Job{Type: api.JobTypeSystem}
	plain, stopped := &api.Job{}, &api.Job{Stop: true}
	parent := &api.Job{Periodic: &api.PeriodicConfig{}}
	runs := &api.Allocation{DesiredStatus: "run", ClientStatus: "running"}
	leaves := &api.Allocation{DesiredStatus: "stop", ClientStatus: "running"}
	failed := &api.Allocation{DesiredStatus: "run", ClientStatus: "failed"}
	open, closed := &api.Evaluation{Status: "blocked"}, &api.Evaluation{Status: "complete"}
	for _, c := range []struct {
		name        string
		job         *api.Job
		allocs      []*api.Allocation
		evals       []*api.Evaluation
		want        string
		deployments []*api.Deployment
	}{
		{"just registered", plain, nil, []*api.Evaluation{open}, "pending", nil},
		{"placed", plain, []*api.Allocation{failed, runs}, []*api.Evaluation{closed}, "running", nil},
		{"failed, tried again later", plain, []*api.Allocation{failed}, []*api.Evaluation{closed, open}, "pending", nil},
		{"failed for good", plain, []*api.Allocation{failed}, []*api.Evaluation{closed}, "dead", nil},
		{"done and forgotten", plain, nil, nil, "dead", nil},
		{"being stopped", stopped, []*api.Allocation{leaves}, []*api.Evaluation{open}, "dead", nil},
		{"told to stop, not yet seen", stopped, []*api.Allocation{runs}, []*api.Evaluation{open}, "running", nil},
		{"system job without a node", system, nil, []*api.Evaluation{closed}, "running", nil},
		{"system job that is looked at again", system, nil, []*api.Evaluation{closed, open}, "running", nil},
		{"system job just registered", system, nil, []*api.Evaluation{open}, "pending", nil},
		{"system job stopped", &api.Job{Type: api.JobTypeSystem, Stop: true}, nil, []*api.Evaluation{closed}, "dead", nil},
		{"rolled out without capacity", plain, nil, []*api.Evaluation{closed, open}, "running", []*api.Deployment{{Status: api.DeploymentStatusRunning}}},
		{"its roll-out failed", plain, nil, []*api.Evaluation{closed}, "dead", []*api.Deployment{{Status: api.DeploymentStatusFailed}}},
		{"the roll-out of another version", plain, nil, []*api.Evaluation{closed}, "dead", []*api.Deployment{{Status: api.DeploymentStatusRunning, JobVersion: 1}}},
		{"waits for its times", parent, nil, nil, "running", nil},
	} {
		if got := rules.Status(c.job, slices.Values(c.allocs), slices.Values(c.evals), slices.Values(c.deployments)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
