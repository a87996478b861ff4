package jobs_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// TestNothingIsRegisteredWhenRefused looks at the service; the rules have their own table.
func TestNothingIsRegisteredWhenRefused(t *testing.T) {
	t.Parallel()
	r := open(t)
	before := r.store.Read().Index()
	periodic := func(crons ...string) func(*api.Job) {
		return func(j *api.Job) {
			j.Type, j.Periodic = api.JobTypeBatch, &api.PeriodicConfig{Enabled: true, Specs: crons, TimeZone: "UTC"}
		}
	}
	for want, spoil := range map[string]func(*api.Job){
		`periodic cron "0 0 31 2 *" never fires`:     periodic("@daily", "0 0 31 2 *"),
		`periodic cron "* * * * * 1980" never fires`: periodic("* * * * * 1980"),
		`periodic cron "often"`:                      periodic("often"),
		`time_zone "Moon/Sea" is not known`:          func(j *api.Job) { periodic("@daily")(j); j.Periodic.TimeZone = "Moon/Sea" },
		`group "g": count -1 is negative`:            func(j *api.Job) { j.TaskGroups[0].Count = -1 },
		`job has 100000 groups`:                      func(j *api.Job) { j.TaskGroups = groups(100_000) },
		`group "g", task "t": constraint operator "~"`: func(j *api.Job) {
			j.TaskGroups[0].Tasks[0].Constraints = []*api.Constraint{{LTarget: "a", Operand: "~"}}
		},
		`group "g": a system job runs once per node, count 2`: func(j *api.Job) { j.Type = api.JobTypeSystem },
	} {
		j := web()
		spoil(j)
		_, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: j})
		refused(t, err, fault.Invalid, want)
		_, err = r.Plan(t.Context(), &api.JobPlanRequest{Job: j})
		refused(t, err, fault.Invalid, want)
	}
	if r.store.Read().Index() != before {
		t.Error("something was written")
	}
}

func groups(n int) []*api.TaskGroup {
	all := make([]*api.TaskGroup, n)
	for i := range all {
		all[i] = web().TaskGroups[0]
	}
	return all
}

func TestPlanningChangesNothing(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	before := r.store.Read().Index()
	next := web()
	next.TaskGroups[0].Count = 5
	next.TaskGroups[0].Scaling = &api.ScalingPolicy{Min: 1, Max: 9}
	out, err := r.Plan(t.Context(), &api.JobPlanRequest{Job: next, Diff: true})
	if err != nil || out.Diff == nil || out.JobModifyIndex != r.get("web").JobModifyIndex {
		t.Fatalf("%+v %v", out, err)
	}
	if tx := r.store.Read(); tx.Index() != before || tx.Job("default", "web").TaskGroups[0].Count != 2 || tx.Job("default", "web").Version != 0 {
		t.Error("the dry run changed the job")
	}
}

func TestPrioritiesOfEvaluationsAreThoseOfJobs(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	before := r.store.Read().Index()
	for _, p := range []int{-1, 101, 777} {
		_, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: web(), EvalPriority: p})
		refused(t, err, fault.Invalid, "Eval priority must be between 1 and 100 inclusively")
		_, err = r.Deregister(t.Context(), &api.JobDeregisterRequest{JobID: "web", EvalPriority: p})
		refused(t, err, fault.Invalid, "Eval priority must be between 1 and 100 inclusively")
	}
	if r.store.Read().Index() != before {
		t.Error("something was written")
	}
}

// A block that was forgotten would start the job at once.
func TestPeriodicJobsStayPeriodic(t *testing.T) {
	t.Parallel()
	r := open(t)
	job := func(change func(*api.Job)) *api.Job {
		j := web()
		j.Type = api.JobTypeBatch
		change(j)
		return j
	}
	daily := func(on bool) func(*api.Job) {
		return func(j *api.Job) {
			j.Periodic = &api.PeriodicConfig{Enabled: on, Specs: []string{"@daily"}, TimeZone: "UTC"}
		}
	}
	r.register(job(daily(true)))
	for _, j := range []*api.Job{
		job(func(*api.Job) {}), job(func(j *api.Job) { j.ParameterizedJob = &api.ParameterizedJobConfig{Payload: "optional"} }),
	} {
		_, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: j})
		refused(t, err, fault.Invalid, "cannot update periodic job to being non-periodic")
		_, err = r.Plan(t.Context(), &api.JobPlanRequest{Job: j})
		refused(t, err, fault.Invalid, "cannot update periodic job to being non-periodic")
	}
	r.register(job(daily(false)))
	_, err := r.PeriodicForce(t.Context(), &api.JobRequest{JobID: "web"})
	refused(t, err, fault.Invalid, "disabled")
}
