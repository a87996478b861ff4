package tasks_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/tasks"
)

func TestRestartPolicy(t *testing.T) {
	t0 := time.Unix(1000, 0)
	most := func(d time.Duration) time.Duration { return d }
	fail := &api.RestartPolicy{Attempts: 2, Interval: time.Minute, Delay: 8 * time.Second, Mode: api.RestartPolicyModeFail}
	delay := &api.RestartPolicy{Attempts: 1, Interval: time.Minute, Delay: 8 * time.Second, Mode: api.RestartPolicyModeDelay}
	failed, fine := tasks.Ending{}, tasks.Ending{Success: true}
	type step struct {
		at     time.Duration
		ending tasks.Ending
		again  bool
		want   tasks.Decision
	}
	within := tasks.Decision{Restart: true, Delay: 10 * time.Second, Reason: "Restart within policy"}
	for name, c := range map[string]struct {
		policy *api.RestartPolicy
		steps  []step
	}{
		"no policy":                           {nil, []step{{0, failed, true, tasks.Decision{Failed: true, Reason: "Policy allows no restarts"}}}},
		"no attempts":                         {&api.RestartPolicy{Interval: time.Minute, Mode: "delay"}, []step{{0, failed, true, tasks.Decision{Failed: true, Reason: "Policy allows no restarts"}}}},
		"batch is done":                       {fail, []step{{0, fine, false, tasks.Decision{}}}},
		"service starts again":                {fail, []step{{0, fine, true, within}}},
		"unrecoverable":                       {fail, []step{{0, tasks.Ending{Unrecoverable: true}, true, tasks.Decision{Failed: true, Reason: "Error was unrecoverable"}}}},
		"no attempts for a service that ends": {&api.RestartPolicy{Mode: "fail"}, []step{{0, fine, true, tasks.Decision{Failed: true, Reason: "Policy allows no restarts"}}}},
		"fail after attempts": {fail, []step{
			{0, failed, true, within},
			{20 * time.Second, failed, true, within},
			{40 * time.Second, failed, true, tasks.Decision{Failed: true, Reason: `Exceeded allowed attempts 2 in interval 1m0s and mode is "fail"`}},
		}},
		"new window": {fail, []step{
			{0, failed, true, within}, {20 * time.Second, failed, true, within}, {60 * time.Second, failed, true, within}, {70 * time.Second, failed, true, within},
		}},
		"delay to the end of the window": {delay, []step{
			{0, failed, true, within},
			{20 * time.Second, failed, true, tasks.Decision{Restart: true, Delay: 42 * time.Second, Reason: `Exceeded allowed attempts 1 in interval 1m0s and mode is "delay"`}},
			{62 * time.Second, failed, true, within},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var tr tasks.Tracker
			for i, s := range c.steps {
				var got tasks.Decision
				if tr, got = tr.Next(c.policy, s.ending, s.again, t0.Add(s.at), most); got != s.want {
					t.Errorf("step %d: got %+v, want %+v", i, got, s.want)
				}
			}
		})
	}
}

func TestRestartWindowEndsWhenTheClockIsSetBack(t *testing.T) {
	wrong, right := time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	none := func(time.Duration) time.Duration { return 0 }
	for _, mode := range []string{"delay", "fail"} {
		p := &api.RestartPolicy{Attempts: 2, Interval: time.Minute, Delay: time.Second, Mode: mode}
		tr, d := tasks.Tracker{}.Next(p, tasks.Ending{}, true, wrong, none)
		for day := range 3 {
			tr, d = tr.Next(p, tasks.Ending{}, true, right.AddDate(0, 0, day), none)
		}
		if d.Failed || d.Delay > time.Minute {
			t.Errorf("mode %s: one failure a day gives %+v", mode, d)
		}
	}
}

func TestRestartOfAnUnhealthyTaskCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "t"})
		wait := b.run(t.Context())
		for range 2 { // the policy of the bench allows one restart
			time.Sleep(time.Minute)
			synctest.Wait()
			b.RestartFailed("none", "x")
			b.RestartFailed("t", `healthcheck: check "c" unhealthy`)
		}
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		s := b.States()["t"]
		if !s.Failed || s.Restarts != 1 || !slices.Contains(events(s), "Restart Signaled") {
			t.Errorf("state %+v, events %v", s, events(s))
		}
	})
}
