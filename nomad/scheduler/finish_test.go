package scheduler_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
)

func TestWhoWaitsKnowsWhy(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	j := job("web", api.JobTypeService, 1, func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = 1 << 20 })
	c.register(j)
	o := c.run(j)
	e := &api.Evaluation{ID: "e", Namespace: "default", JobID: "web", Type: j.Type, TriggeredBy: api.TriggerJobRegister}
	all := scheduler.Done(e, o, 7, c.now, c.id)
	if len(all) != 2 || all[0].Status != api.EvalStatusBlocked || all[1].BlockedEval != all[0].ID {
		t.Fatalf("evaluations %+v", all)
	}
	for _, e := range all {
		if m := e.FailedTGAllocs["g"]; m == nil || m.DimensionExhausted["memory"] != 2 {
			t.Errorf("%s evaluation says %+v", e.Status, m)
		}
	}
}
