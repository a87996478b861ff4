package scheduler_test

import (
	"testing"
	"time"

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

// Clients show what a complete evaluation did, and follow it to the one that comes later.
func TestACompleteEvaluationSaysWhatItDidAndWhatFollows(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	j := job("web", api.JobTypeService, 2, func(j *api.Job) {
		j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, Delay: time.Minute, DelayFunction: "constant"}
	})
	c.register(j)
	e := c.registered(j)
	o := c.run(j)
	done := scheduler.Done(e, o, c.index, c.now, c.id)
	if len(done) != 1 || done[0].FailedTGAllocs != nil || done[0].NextEval != "" || done[0].PlanAnnotations == nil || done[0].PlanAnnotations.DesiredTGUpdates["g"].Place != 2 {
		t.Fatalf("evaluations %+v", done)
	}
	c.each("web", func(a *api.Allocation) {
		if a.Name == "web.g[0]" {
			a.ClientStatus = api.AllocClientStatusFailed
		}
	})
	o = c.run(j)
	done = scheduler.Done(e, o, c.index, c.now, c.id)
	if len(o.FollowUps) != 1 || done[0].NextEval != o.FollowUps[0].ID {
		t.Fatalf("follow-ups %+v, evaluations %+v", o.FollowUps, done)
	}
	if d := done[0].PlanAnnotations.DesiredTGUpdates["g"]; d.RescheduleLater != 1 || d.Ignore != 2 {
		t.Errorf("what was done: %+v", d)
	}
}
