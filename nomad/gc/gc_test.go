package gc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/gc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

type fixture struct {
	*gc.Service
	t     *testing.T
	store *state.Store
}

var start = time.Unix(1_700_000_000, 0)

func newFixture(t *testing.T, extra ...gc.Step) *fixture {
	t.Helper()
	s := state.New()
	r := fsm.NewRegistry(gc.Commands)
	f := &fixture{gc.New(gc.Config{
		State: s, Raft: fsm.NewLocal(s, r), Extra: extra, Now: func() time.Time { return start.Add(time.Hour) },
	}), t, s}
	return f
}

func (r *fixture) put(fn func(*state.Txn)) {
	tx := r.store.Write(r.store.Read().Index()+1, start)
	fn(tx)
	tx.Commit()
}

func (r *fixture) collect() *state.Txn {
	r.t.Helper()
	if _, err := r.GC(r.t.Context(), &api.WriteRequest{}); err != nil {
		r.t.Fatal(err)
	}
	return r.store.Read()
}

// history puts a job with one evaluation and one ended allocation.
func (r *fixture) history(change func(j *api.Job, e *api.Evaluation, a *api.Allocation)) {
	j := &api.Job{
		ID: "j", Namespace: "default", Type: api.JobTypeService, Status: api.JobStatusRunning,
		TaskGroups: []*api.TaskGroup{{Name: "g", Count: 1}},
	}
	e := &api.Evaluation{ID: "e", Namespace: "default", JobID: "j", Type: j.Type, Status: api.EvalStatusComplete, ModifyTime: start.UnixNano()}
	a := &api.Allocation{
		ID: "a", Namespace: "default", JobID: "j", TaskGroup: "g", EvalID: "e", NodeID: "n", Job: j,
		DesiredStatus: api.AllocDesiredStatusStop, ClientStatus: api.AllocClientStatusComplete, ModifyTime: start.UnixNano(),
	}
	change(j, e, a)
	r.put(func(tx *state.Txn) {
		tx.PutNode(&api.Node{ID: "n", Status: api.NodeStatusReady})
		tx.PutJob(j)
		tx.PutEval(e)
		tx.PutAlloc(a)
	})
}

func TestEvaluationsGoWithTheirAllocations(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(j *api.Job, e *api.Evaluation, a *api.Allocation)
		gone   bool
	}{
		{"stopped", func(*api.Job, *api.Evaluation, *api.Allocation) {}, true},
		{"still running", func(_ *api.Job, _ *api.Evaluation, a *api.Allocation) { a.ClientStatus = api.AllocClientStatusRunning }, false},
		{"evaluation pending", func(_ *api.Job, e *api.Evaluation, _ *api.Allocation) { e.Status = api.EvalStatusPending }, false},
		{"failed and to be tried again", func(j *api.Job, _ *api.Evaluation, a *api.Allocation) {
			j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, Delay: time.Second}
			a.DesiredStatus, a.ClientStatus = api.AllocDesiredStatusRun, api.AllocClientStatusFailed
		}, false},
		{"failed and replaced", func(j *api.Job, _ *api.Evaluation, a *api.Allocation) {
			j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, Delay: time.Second}
			a.DesiredStatus, a.ClientStatus, a.NextAllocation = api.AllocDesiredStatusRun, api.AllocClientStatusFailed, "b"
		}, true},
		{"batch work of this version of a job that stays", func(j *api.Job, e *api.Evaluation, _ *api.Allocation) {
			j.Type, e.Type, j.SubmitTime = api.JobTypeBatch, api.JobTypeBatch, start.Add(2*time.Hour).UnixNano()
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newFixture(t)
			r.history(c.change)
			tx := r.collect()
			if gone := tx.Eval("e") == nil && tx.Alloc("a") == nil; gone != c.gone {
				t.Fatalf("gone: %v", gone)
			}
			if (tx.Eval("e") == nil) != (tx.Alloc("a") == nil) {
				t.Fatal("only one of both is gone")
			}
		})
	}
}

func TestAllocationWithAClaimStays(t *testing.T) {
	r := newFixture(t)
	r.history(func(*api.Job, *api.Evaluation, *api.Allocation) {})
	r.put(func(tx *state.Txn) {
		tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "n", State: api.ClaimReleasing})
	})
	if tx := r.collect(); tx.Alloc("a") == nil || tx.Eval("e") == nil {
		t.Fatal("the row that a claim needs is gone")
	}
	r.put(func(tx *state.Txn) { tx.DeleteClaim("default", "v", "a", "") })
	if tx := r.collect(); tx.Alloc("a") != nil {
		t.Fatal("the allocation stays for ever")
	}
}

func TestDownNodeStaysWhileSomethingIsAttached(t *testing.T) {
	r := newFixture(t)
	r.put(func(tx *state.Txn) {
		tx.PutNode(&api.Node{ID: "n", Status: api.NodeStatusDown})
		tx.PutNode(&api.Node{ID: "up", Status: api.NodeStatusReady})
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n"})
	})
	if tx := r.collect(); tx.Node("n") == nil {
		t.Fatal("the node of an attachment is gone")
	}
	r.put(func(tx *state.Txn) { tx.DeleteAttachment("p", "x", "n") })
	if tx := r.collect(); tx.Node("n") != nil || tx.Node("up") == nil {
		t.Fatal("wrong node is gone")
	}
}

func TestDeadJobGoesWithEverything(t *testing.T) {
	r := newFixture(t)
	r.history(func(j *api.Job, _ *api.Evaluation, _ *api.Allocation) { j.Stop = true })
	if tx := r.collect(); tx.Job("default", "j") != nil || tx.Eval("e") != nil || tx.Alloc("a") != nil {
		t.Fatal("something of the job is left")
	}
}

// What a job's row says of its status is not kept up to date: it is empty, or what it once was.
func TestJobsAreOverByWhatBelongsToThem(t *testing.T) {
	type change = func(j *api.Job, e *api.Evaluation, a *api.Allocation)
	batch := func(more change) change {
		return func(j *api.Job, e *api.Evaluation, a *api.Allocation) {
			j.Type, e.Type, j.Status = api.JobTypeBatch, api.JobTypeBatch, ""
			a.DesiredStatus = api.AllocDesiredStatusRun
			more(j, e, a)
		}
	}
	for _, c := range []struct {
		name   string
		change change
		gone   bool
	}{
		{"finished batch job", batch(func(*api.Job, *api.Evaluation, *api.Allocation) {}), true},
		{"failed batch job without another try", batch(func(_ *api.Job, _ *api.Evaluation, a *api.Allocation) {
			a.ClientStatus = api.AllocClientStatusFailed
		}), true},
		{"running batch job", batch(func(j *api.Job, _ *api.Evaluation, a *api.Allocation) {
			j.Status, a.ClientStatus = api.JobStatusDead, api.AllocClientStatusRunning
		}), false},
		{"failed batch job before its next try is planned", batch(func(j *api.Job, _ *api.Evaluation, a *api.Allocation) {
			j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, Delay: time.Second}
			a.ClientStatus = api.AllocClientStatusFailed
		}), false},
		{"batch job that waits for its next try", batch(func(_ *api.Job, e *api.Evaluation, a *api.Allocation) {
			a.ClientStatus, e.Status = api.AllocClientStatusFailed, api.EvalStatusPending
		}), false},
		{"batch job that waits for capacity", batch(func(_ *api.Job, e *api.Evaluation, _ *api.Allocation) {
			e.Status = api.EvalStatusBlocked
		}), false},
		{"parent of periodic jobs", batch(func(j *api.Job, _ *api.Evaluation, _ *api.Allocation) {
			j.Periodic = &api.PeriodicConfig{Spec: "@daily"}
		}), false},
		{"tagged version", batch(func(j *api.Job, _ *api.Evaluation, _ *api.Allocation) {
			j.VersionTag = &api.JobVersionTag{Name: "keep"}
		}), false},
		{"service scaled to zero", func(j *api.Job, _ *api.Evaluation, _ *api.Allocation) {
			j.Status, j.TaskGroups[0].Count = "", 0
		}, false},
		{"stopped service", func(j *api.Job, _ *api.Evaluation, _ *api.Allocation) { j.Status, j.Stop = "", true }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newFixture(t)
			r.history(c.change)
			tx := r.collect()
			if gone := tx.Job("default", "j") == nil; gone != c.gone {
				t.Fatalf("gone: %v", gone)
			}
			if c.gone && (tx.Eval("e") != nil || tx.Alloc("a") != nil) {
				t.Fatal("something of the job is left")
			}
		})
	}
}

func TestYoungThingsStayInPeriodicRuns(t *testing.T) {
	r := newFixture(t)
	r.history(func(j *api.Job, e *api.Evaluation, _ *api.Allocation) {
		e.ModifyTime = start.Add(30 * time.Minute).UnixNano()
	})
	_, err := fsmApply(r, &gc.Reap{Allocs: []string{"unknown"}, Evals: []string{"unknown"}, Nodes: []string{"n"}})
	if err != nil || r.store.Read().Node("n") == nil {
		t.Fatalf("a ready node was forgotten: %v", err)
	}
}

func fsmApply(r *fixture, c fsm.Command) (fsm.Result, error) { return r.Raft.Propose(r.t.Context(), c) }

// S7, S37: a step that fails does not keep the others from running.
func TestStepsAreIsolated(t *testing.T) {
	broken := errors.New("broken")
	r := newFixture(t, gc.Step{Name: "claims", Run: func(context.Context, bool) error { return broken }})
	r.put(func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "n", Status: api.NodeStatusDown}) })
	if _, err := r.GC(t.Context(), &api.WriteRequest{}); !errors.Is(err, broken) {
		t.Fatalf("error %v", err)
	}
	if r.store.Read().Node("n") != nil {
		t.Fatal("nodes were not collected")
	}
}

func TestReconcileCountsAgain(t *testing.T) {
	r := newFixture(t)
	r.history(func(*api.Job, *api.Evaluation, *api.Allocation) {})
	r.put(func(tx *state.Txn) {
		tx.PutJobSummary(&api.JobSummary{Namespace: "default", JobID: "j", Summary: map[string]api.TaskGroupSummary{"g": {Running: 7}}})
	})
	if _, err := r.Reconcile(t.Context(), &api.WriteRequest{}); err != nil {
		t.Fatal(err)
	}
	if s := r.store.Read().JobSummary("default", "j").Summary["g"]; s.Complete != 1 || s.Running != 0 {
		t.Fatalf("summary %+v", s)
	}
}

// What a batch job did is how it knows that it is done: it is not forgotten when the job lives on meanwhile.
func TestJobThatIsAskedForAgainRemembersWhatItDid(t *testing.T) {
	r := newFixture(t)
	r.history(func(j *api.Job, e *api.Evaluation, a *api.Allocation) {
		j.Type, e.Type, a.DesiredStatus = api.JobTypeBatch, api.JobTypeBatch, api.AllocDesiredStatusRun
	})
	// The collector has found the job over; before its command comes, the job is registered again as it was.
	r.put(func(tx *state.Txn) {
		tx.PutEval(&api.Evaluation{ID: "again", Namespace: "default", JobID: "j", Type: api.JobTypeBatch, Status: api.EvalStatusPending})
	})
	if _, err := r.Raft.Propose(t.Context(), &gc.Reap{Allocs: []string{"a"}, Evals: []string{"e"}, Jobs: []gc.JobID{{Namespace: "default", ID: "j"}}}); err != nil {
		t.Fatal(err)
	}
	tx := r.store.Read()
	if tx.Job("default", "j") != nil && tx.Alloc("a") == nil {
		t.Error("the job is there, what it did is forgotten: it will do all of it once more")
	}
}

// The node of an allocation removes its files with it.
func TestAllocationStaysWhileItsDataIsCopied(t *testing.T) {
	r := newFixture(t)
	next := &api.Allocation{
		ID: "b", Namespace: "default", JobID: "j", TaskGroup: "g", EvalID: "e2", NodeID: "n2", PreviousAllocation: "a",
		DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusPending, ModifyTime: start.UnixNano(),
	}
	r.history(func(j *api.Job, _ *api.Evaluation, a *api.Allocation) {
		j.TaskGroups[0].EphemeralDisk = &api.EphemeralDisk{SizeMB: 10, Migrate: true}
		next.Job, a.NextAllocation = j, "b"
	})
	r.put(func(tx *state.Txn) { tx.PutAlloc(next) })
	if tx := r.collect(); tx.Alloc("a") == nil {
		t.Fatal("the allocation is removed before its data is copied")
	}
	running := *next
	running.ClientStatus = api.AllocClientStatusRunning
	r.put(func(tx *state.Txn) { tx.PutAlloc(&running) })
	if tx := r.collect(); tx.Alloc("a") != nil {
		t.Error("the allocation stays after its data is copied")
	}
}
