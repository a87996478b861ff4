package gc_test

import (
	"context"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/gc"
	"github.com/open-nomad/open-nomad/nomad/jobs"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// rounds lets the leader's ordinary rounds pass, twice.
func rounds(t *testing.T, s *state.Store, now time.Time) {
	t.Helper()
	reg := fsm.NewRegistry(gc.Commands)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	left := 2
	last := gc.Step{Name: "last", Run: func(context.Context, bool) error {
		if left--; left == 0 {
			cancel()
		}
		return nil
	}}
	_ = gc.New(gc.Config{
		State: s, Raft: fsm.NewLocal(s, reg), Now: func() time.Time { return now }, Extra: []gc.Step{last},
		Limits: gc.Limits{Interval: time.Millisecond},
	}).Run(ctx)
	if left > 0 {
		t.Fatal("no rounds")
	}
}

// The thresholds count from the end of a job, however long ago it was submitted.
func TestJobsStayForAWhileAfterTheirEnd(t *testing.T) {
	submitted := start
	over := start.Add(240 * time.Hour)
	evaluated := map[string]time.Time{"service": over, "batch": submitted}
	for name, j := range map[string]api.Job{
		"service": {Type: api.JobTypeService, Stop: true, Version: 1},
		"batch":   {Type: api.JobTypeBatch},
	} {
		t.Run(name, func(t *testing.T) {
			s := state.New()
			j.ID, j.Namespace, j.SubmitTime = "j", "default", submitted.UnixNano()
			j.TaskGroups = []*api.TaskGroup{{Name: "g", Count: 1}}
			tx := s.Write(s.Read().Index()+1, over)
			tx.PutNode(&api.Node{ID: "n", Status: api.NodeStatusReady})
			tx.PutJob(&j)
			tx.PutJobVersion(&j)
			tx.PutEval(&api.Evaluation{
				ID: "e", Namespace: "default", JobID: "j", Type: j.Type, Status: api.EvalStatusComplete,
				TriggeredBy: api.TriggerJobDeregister, CreateTime: submitted.UnixNano(), ModifyTime: evaluated[name].UnixNano(),
			})
			tx.PutAlloc(&api.Allocation{
				ID: "a", Namespace: "default", JobID: "j", TaskGroup: "g", EvalID: "e", NodeID: "n", Job: &j,
				DesiredStatus: api.AllocDesiredStatusStop, ClientStatus: api.AllocClientStatusComplete,
				CreateTime: submitted.UnixNano(), ModifyTime: over.UnixNano(),
			})
			tx.Commit()
			for _, after := range []time.Duration{time.Minute, 2 * time.Hour, 3*time.Hour + 59*time.Minute} {
				rounds(t, s, over.Add(after))
				if tx := s.Read(); tx.Job("default", "j") == nil || tx.Eval("e") == nil {
					t.Fatalf("%s after its end: job %v, evaluation %v", after, tx.Job("default", "j"), tx.Eval("e"))
				}
			}
			rounds(t, s, over.Add(4*time.Hour+time.Minute))
			if tx := s.Read(); tx.Job("default", "j") != nil || tx.Eval("e") != nil || tx.Alloc("a") != nil {
				t.Error("something of the job stays")
			}
		})
	}
}

// A template has no evaluations that could tell when it was stopped.
func TestTemplatesStayForAWhileAfterTheirStop(t *testing.T) {
	stopped := start.Add(240 * time.Hour)
	for name, j := range map[string]*api.Job{
		"periodic":      {Type: api.JobTypeBatch, Periodic: &api.PeriodicConfig{Enabled: true}},
		"parameterized": {Type: api.JobTypeBatch, ParameterizedJob: &api.ParameterizedJobConfig{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := state.New()
			j.ID, j.Namespace, j.SubmitTime = "j", "default", start.UnixNano()
			tx := s.Write(s.Read().Index()+1, start)
			tx.PutJob(j)
			tx.PutJobVersion(j)
			tx.Commit()
			reg := fsm.NewRegistry(jobs.Commands)
			raft := fsm.NewLocal(s, reg)
			raft.Now = func() time.Time { return stopped }
			rounds(t, s, stopped)
			if _, err := raft.Propose(t.Context(), &jobs.Deregister{Namespace: "default", JobID: "j", EvalID: "e"}); err != nil {
				t.Fatal(err)
			}
			for _, after := range []time.Duration{time.Minute, 3*time.Hour + 59*time.Minute} {
				if rounds(t, s, stopped.Add(after)); s.Read().Job("default", "j") == nil {
					t.Fatalf("forgotten %s after its stop", after)
				}
			}
			if rounds(t, s, stopped.Add(4*time.Hour+time.Minute)); s.Read().Job("default", "j") != nil {
				t.Error("it stays for ever")
			}
		})
	}
}

// What a one-time job did is how it knows that it is done, in whatever version it did that.
func TestWorkThatCountsStays(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*api.Job)
		gone   bool
	}{
		{"another priority", func(j *api.Job) { j.Priority = 60 }, false},
		{"other work", func(j *api.Job) {
			j.TaskGroups = []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{Name: "t", Driver: "x"}}}}
		}, true},
	} {
		r := newFixture(t)
		r.history(func(j *api.Job, e *api.Evaluation, a *api.Allocation) {
			j.Type, e.Type, a.DesiredStatus = api.JobTypeSysbatch, api.JobTypeSysbatch, api.AllocDesiredStatusRun
		})
		r.put(func(tx *state.Txn) {
			next := *tx.Job("default", "j")
			next.Version, next.SubmitTime = 1, start.Add(2*time.Hour).UnixNano()
			c.change(&next)
			tx.PutJob(&next)
		})
		if tx := r.collect(); (tx.Alloc("a") == nil) != c.gone {
			t.Errorf("%s: gone %v", c.name, !c.gone)
		}
	}
}
