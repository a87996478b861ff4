package nodes_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// A job that is only the template of those that are dispatched or launched is never placed itself.
func TestNodeEvaluatesNoTemplatesOfJobs(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	for id, change := range map[string]func(*api.Job){
		"run": func(*api.Job) {}, "work": func(j *api.Job) { j.ParameterizedJob = &api.ParameterizedJobConfig{} },
		"daily": func(j *api.Job) { j.Periodic = &api.PeriodicConfig{} },
	} {
		r.place(api.JobTypeSysbatch, id, "elsewhere")
		r.write(func(tx *state.Txn) {
			j := *tx.Job("default", id)
			change(&j)
			tx.PutJob(&j)
		})
	}
	r.register(node("n1"))
	if got := r.jobsOf(r.beat("n1", api.NodeStatusReady).EvalIDs); !slices.Equal(got, []string{"run node-update"}) {
		t.Errorf("evaluations %v", got)
	}
}
