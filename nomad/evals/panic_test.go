package evals_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Else it would be handed out again, and end one server after the other.
func TestAnEvaluationThatTheSchedulerBreaksOnFails(t *testing.T) {
	for want, change := range map[string]func(*api.Job){
		"the scheduler panicked":                      func(j *api.Job) { j.TaskGroups[0].Constraints = []*api.Constraint{nil} },
		"asks for 9223372036854775807 allocations":    func(j *api.Job) { j.TaskGroups[0].Count = 1<<63 - 1 },
		"job asks for 4611686018427387904 canaries, ": func(j *api.Job) { j.TaskGroups[0].Update = &api.UpdateStrategy{MaxParallel: 1, Canary: 1 << 62} },
	} {
		w := newWorld(t)
		w.node("n1")
		w.job("bad", 1, evalID(1))
		w.untilEval(evalID(1), api.EvalStatusComplete)
		w.write(func(tx *state.Txn) {
			j := *tx.Job("default", "bad")
			g := *j.TaskGroups[0]
			j.TaskGroups, j.Version, j.JobModifyIndex = []*api.TaskGroup{&g}, j.Version+1, tx.Index()
			change(&j)
			tx.PutJob(&j)
			tx.PutJobVersion(&j)
			tx.PutEval(&api.Evaluation{
				ID: evalID(2), Namespace: "default", JobID: "bad", Type: j.Type, Priority: 50, Status: api.EvalStatusPending,
				TriggeredBy: api.TriggerJobRegister, JobModifyIndex: tx.Index(),
			})
		})
		if e := w.untilEval(evalID(2), api.EvalStatusFailed); !strings.Contains(e.StatusDescription, want) {
			t.Errorf("want %q, got %q", want, e.StatusDescription)
		}
		w.job("good", 1, evalID(3))
		w.untilLive("good", 1)
	}
}
