package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func (r *fixture) stop(q *api.JobDeregisterRequest) *api.JobRegisterResponse {
	r.t.Helper()
	out, err := r.Deregister(r.t.Context(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// alloc puts an allocation of the stored job.
func (r *fixture) alloc(id, client string) {
	r.put(func(tx *state.Txn) {
		j := tx.Job("default", "web")
		tx.PutAlloc(&api.Allocation{
			ID: id, Namespace: "default", JobID: "web", Job: j, TaskGroup: "g", NodeID: "n",
			DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: client,
		})
	})
}

func TestStopAndPurge(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	out := r.stop(&api.JobDeregisterRequest{JobID: "web"})
	if e := r.store.Read().Eval(out.EvalID); e == nil || e.TriggeredBy != api.TriggerJobDeregister {
		t.Errorf("evaluation %+v", e)
	}
	if j := r.get("web"); !j.Stop || j.Version != 1 || j.JobModifyIndex != out.Index {
		t.Errorf("stopped job: stop %v, version %d", j.Stop, j.Version)
	}
	r.register(web())
	if j := r.get("web"); j.Stop || j.Version != 2 {
		t.Errorf("started again: stop %v, version %d", j.Stop, j.Version)
	}
	out = r.stop(&api.JobDeregisterRequest{JobID: "web", Purge: true, EvalPriority: 33})
	if r.get("web") != nil {
		t.Error("a purged job is still there")
	}
	if e := r.store.Read().Eval(out.EvalID); e == nil || e.Priority != 33 {
		t.Errorf("evaluation of the purged job %+v", e)
	}
	if out := r.stop(&api.JobDeregisterRequest{JobID: "none", Purge: true}); out.EvalID != "" || out.JobModifyIndex != 0 {
		t.Errorf("stopping what is not there: %+v", out)
	}
	_, err := r.Deregister(t.Context(), &api.JobDeregisterRequest{})
	refused(t, err, fault.Invalid, "no job ID")
}

func TestStopInAHurry(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	r.alloc("a", api.AllocClientStatusRunning)
	r.alloc("b", api.AllocClientStatusComplete)
	r.stop(&api.JobDeregisterRequest{JobID: "web", NoShutdownDelay: true})
	tx := r.store.Read()
	if !tx.Alloc("a").DesiredTransition.NoShutdownDelay || tx.Alloc("b").DesiredTransition.NoShutdownDelay {
		t.Error("only what runs is to stop without delay")
	}
}

// What an earlier stop has brought into its shutdown delay, at most for ever, is hurried too, and its node hears of it.
func TestStopInAHurryOfWhatIsBeingStopped(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	r.alloc("a", api.AllocClientStatusRunning)
	tx := r.store.Write(r.store.Read().Index()+1, r.store.Read().Now())
	a := *tx.Alloc("a")
	a.DesiredStatus = api.AllocDesiredStatusStop
	tx.PutAlloc(&a)
	tx.Commit()
	before := r.store.Read().Alloc("a").AllocModifyIndex
	r.stop(&api.JobDeregisterRequest{JobID: "web"})
	r.stop(&api.JobDeregisterRequest{JobID: "web", NoShutdownDelay: true})
	if a := r.store.Read().Alloc("a"); !a.DesiredTransition.NoShutdownDelay || a.AllocModifyIndex == before {
		t.Errorf("%+v, told %d after %d", a.DesiredTransition, a.AllocModifyIndex, before)
	}
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	r.alloc("a", api.AllocClientStatusFailed)
	r.alloc("b", api.AllocClientStatusRunning)
	out, err := r.Evaluate(t.Context(), &api.JobEvaluateRequest{JobID: "web", EvalOptions: api.EvalOptions{ForceReschedule: true}})
	if err != nil {
		t.Fatal(err)
	}
	tx := r.store.Read()
	if e := tx.Eval(out.EvalID); e == nil || e.Status != api.EvalStatusPending || out.EvalCreateIndex == 0 {
		t.Errorf("evaluation %+v", e)
	}
	if !tx.Alloc("a").DesiredTransition.ForceReschedule || tx.Alloc("b").DesiredTransition.ForceReschedule {
		t.Error("only what failed is to be placed again")
	}
	_, err = r.Evaluate(t.Context(), &api.JobEvaluateRequest{JobID: "none"})
	refused(t, err, fault.NotFound, `job "none"`)
}

func TestPlanWritesNothing(t *testing.T) {
	t.Parallel()
	r := open(t)
	plan := func(j *api.Job) *api.JobPlanResponse {
		t.Helper()
		before := r.store.Read().Index()
		out, err := r.Plan(t.Context(), &api.JobPlanRequest{Job: j, Diff: true})
		if err != nil {
			t.Fatal(err)
		}
		if r.store.Read().Index() != before {
			t.Error("a plan wrote")
		}
		return out
	}
	if out := plan(web()); out.Diff.Type != "Added" || out.JobModifyIndex != 0 || len(out.CreatedEvals) != 1 {
		t.Errorf("plan of a new job: %+v", out)
	}
	reg := r.register(web())
	same := plan(web())
	if same.Diff.Type != "None" || same.JobModifyIndex != reg.JobModifyIndex || same.CreatedEvals[0].JobModifyIndex != reg.JobModifyIndex {
		t.Errorf("plan without a change: %+v %+v", same, same.CreatedEvals[0])
	}
	changed := web()
	changed.TaskGroups[0].Count = 5
	if out := plan(changed); out.Diff.Type != "Edited" || out.CreatedEvals[0].JobModifyIndex <= reg.JobModifyIndex {
		t.Errorf("plan of a change: %+v", out)
	}
	nowhere := web()
	nowhere.Namespace = "nowhere"
	_, err := r.Plan(t.Context(), &api.JobPlanRequest{Job: nowhere})
	refused(t, err, fault.Invalid, `namespace "nowhere"`)
}

// A template places nothing itself: its plan is that of a launch.
func TestPlanOfATemplate(t *testing.T) {
	t.Parallel()
	r := open(t)
	plan := func(change func(*api.Job)) *api.JobPlanResponse {
		t.Helper()
		j := web()
		j.Type = api.JobTypeBatch
		change(j)
		out, err := r.Plan(t.Context(), &api.JobPlanRequest{Job: j, Diff: true})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := plan(func(j *api.Job) { j.Periodic = &api.PeriodicConfig{Enabled: true, Spec: "0 3 * * *", SpecType: "cron"} })
	if out.Annotations == nil || out.Diff.TaskGroups[0].Updates["create"] != 2 || len(out.CreatedEvals) > 0 || out.NextPeriodicLaunch.IsZero() {
		t.Errorf("periodic: %+v", out)
	}
	if out := plan(func(j *api.Job) { j.ParameterizedJob = &api.ParameterizedJobConfig{Payload: "optional"} }); out.Annotations != nil || len(out.CreatedEvals) > 0 {
		t.Errorf("parameterized: %+v", out)
	}
}

func TestStatusIsDerived(t *testing.T) {
	t.Parallel()
	r := open(t)
	is := func(want string) {
		t.Helper()
		if got := r.get("web").Status; got != want {
			t.Errorf("status %s, want %s", got, want)
		}
	}
	out := r.register(web())
	is(api.JobStatusPending)
	r.alloc("a", api.AllocClientStatusPending)
	is(api.JobStatusRunning)
	r.put(func(tx *state.Txn) {
		e := *tx.Eval(out.EvalID)
		e.Status = api.EvalStatusComplete
		tx.PutEval(&e)
	})
	r.alloc("a", api.AllocClientStatusComplete)
	is(api.JobStatusDead)
	out = r.stop(&api.JobDeregisterRequest{JobID: "web"})
	is(api.JobStatusDead)
	r.alloc("a", api.AllocClientStatusRunning)
	is(api.JobStatusRunning)
}

func TestListByPrefixAndNamespace(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.put(func(tx *state.Txn) { tx.PutNamespace(&api.Namespace{Name: "prod"}) })
	for _, j := range []struct{ ns, id string }{{"default", "web"}, {"default", "db"}, {"prod", "web-2"}} {
		job := web()
		job.Namespace, job.ID, job.Name = j.ns, j.id, j.id
		r.register(job)
	}
	for _, c := range []struct{ ns, prefix, want string }{
		{"", "", "db web "}, {"", "w", "web "}, {"prod", "", "web-2 "}, {"*", "web", "web web-2 "}, {"*", "", "db web web-2 "}, {"*", "x", ""},
	} {
		out, err := r.List(t.Context(), &api.JobListRequest{QueryOptions: api.QueryOptions{Namespace: c.ns, Prefix: c.prefix}})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, j := range out.Jobs {
			got += j.ID + " "
		}
		if got != c.want {
			t.Errorf("namespace %q prefix %q: %q, want %q", c.ns, c.prefix, got, c.want)
		}
		if out.Index == 0 {
			t.Error("no index")
		}
	}
	other, err := r.Get(t.Context(), &api.JobRequest{JobID: "web", QueryOptions: api.QueryOptions{Namespace: "prod"}})
	if err != nil || other.Job != nil {
		t.Errorf("a job was found in another namespace: %+v %v", other.Job, err)
	}
}

func TestGetWakesWhenAnAllocationChanges(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	now, err := r.Get(t.Context(), &api.JobRequest{JobID: "web"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	woken := make(chan *api.JobGetResponse, 1)
	go func() {
		out, err := r.Get(ctx, &api.JobRequest{JobID: "web", QueryOptions: api.QueryOptions{MinIndex: now.Index, MaxWait: time.Minute}})
		if err != nil {
			t.Error(err)
		}
		woken <- out
	}()
	r.alloc("a", api.AllocClientStatusRunning)
	if out := <-woken; out.Job == nil || out.Job.Status != api.JobStatusRunning || out.Index <= now.Index {
		t.Errorf("woken with %+v", out)
	}
}

func TestWhatBelongsToAJob(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	r.alloc("old", api.AllocClientStatusComplete)
	r.stop(&api.JobDeregisterRequest{JobID: "web", Purge: true})
	r.register(web())
	r.alloc("new", api.AllocClientStatusRunning)
	for _, c := range []struct {
		all  bool
		want int
	}{{false, 1}, {true, 2}} {
		out, err := r.Allocations(t.Context(), &api.JobRequest{JobID: "web", All: c.all})
		if err != nil || len(out.Allocs) != c.want {
			t.Errorf("all %v: %d allocations, %v", c.all, len(out.Allocs), err)
		}
	}
	evals, err := r.Evaluations(t.Context(), &api.JobRequest{JobID: "web"})
	if err != nil || len(evals.Evaluations) != 3 {
		t.Errorf("%d evaluations, %v", len(evals.Evaluations), err)
	}
	sum, err := r.Summary(t.Context(), &api.JobRequest{JobID: "web"})
	if err != nil || sum.JobSummary == nil || sum.JobSummary.Summary["g"].Running != 1 {
		t.Errorf("summary %+v, %v", sum.JobSummary, err)
	}
}
