package jobs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs"
)

// A launch out of turn takes the place of none of the times to come.
func TestForcedLaunchesLeaveTheTimesAlone(t *testing.T) {
	t.Parallel()
	r := open(t)
	j := web()
	j.Type = api.JobTypeBatch
	j.Periodic = &api.PeriodicConfig{Enabled: true, SpecType: "cron", Spec: "* * * * *", TimeZone: "UTC"}
	r.register(j)
	count := func() (n int) {
		for range r.store.Read().JobsByParent("default", "web") {
			n++
		}
		return n
	}
	at := time.Now()
	for range 20 { // by hand, by several people
		if _, err := r.PeriodicForce(t.Context(), &api.JobRequest{JobID: "web"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(); n != 20 {
		t.Fatalf("%d instances", n)
	}
	at = at.Truncate(time.Second)
	for i := range 10 {
		if err := r.Launch(t.Context(), "default", "web", at.Add(time.Duration(i+5)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(); n != 30 {
		t.Errorf("%d instances after 20 launches by hand and 10 times", n)
	}
}

// One launch out of turn in the very second of a time of the plan, before it or after it, takes nothing away.
func TestForcedLaunchInTheSecondOfATimeIsBesideIt(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		r := open(t)
		j := web()
		j.Type = api.JobTypeBatch
		j.Periodic = &api.PeriodicConfig{Enabled: true, SpecType: "cron", Spec: "* * * * *", TimeZone: "UTC"}
		r.register(j)
		due := time.Now().Truncate(time.Second).Add(time.Second)
		launch := func(force bool) {
			evals := len(slices.Collect(r.store.Read().Evals(api.AllNamespaces)))
			if _, err := r.Raft.Propose(t.Context(), &jobs.Launch{Namespace: "default", JobID: "web", At: due, EvalID: uuid.NewString(), Force: force}); err != nil {
				t.Fatal(err)
			}
			if n := len(slices.Collect(r.store.Read().Evals(api.AllNamespaces))); n != evals+1 {
				t.Errorf("forced %v, forced first %v: %d new evaluations", force, first, n-evals)
			}
		}
		launch(first)
		launch(!first)
		if err := r.Launch(t.Context(), "default", "web", due); err != nil { // as after a change of leader
			t.Fatal(err)
		}
		if n := len(slices.Collect(r.store.Read().JobsByParent("default", "web"))); n != 2 {
			t.Errorf("forced first %v: %d instances", first, n)
		}
	}
}
