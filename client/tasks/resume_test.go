package tasks_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// An agent that is started anew while a group is being stopped goes on with that: tasks end in their order, and poststop
// tasks run to their end.
func TestStopGoesOnAfterARestartOfTheAgent(t *testing.T) {
	for name, during := range map[string]struct {
		wait     time.Duration
		poststop bool
	}{
		"while tasks run":          {0, false},
		"while a poststop runs":    {2 * time.Second, true},
		"before anything was told": {-1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, "service", &api.Task{Name: "lead", Leader: true}, &api.Task{Name: "other"},
					hook("side", "prestart", true, nil), hook("after", "poststop", false, lasting(5*time.Second, 0)))
				b.conf.Alloc.Group().ShutdownDelay = time.Second
				ctx, cancel := context.WithCancel(t.Context())
				wait := b.run(ctx)
				b.until(t, "running", running("lead", "other", "side"))
				if during.wait >= 0 {
					b.Stop()
					time.Sleep(during.wait)
					synctest.Wait()
				}
				if running("after")(b.States()) != during.poststop {
					t.Fatalf("poststop: %+v", b.States()["after"])
				}
				cancel()
				_ = wait()
				b.renew(t)
				b.Stop()
				began := time.Now()
				if err := b.run(t.Context())(); err != nil {
					t.Fatal(err)
				}
				s := b.States()
				if slices.Contains(events(s["after"]), "Killed") || s["after"].FinishedAt.Sub(s["after"].StartedAt) != 5*time.Second {
					t.Errorf("poststop was cut off: %v", events(s["after"]))
				}
				if s["lead"].FinishedAt.After(s["other"].FinishedAt) || s["other"].FinishedAt.After(s["side"].FinishedAt) || s["side"].FinishedAt.After(s["after"].FinishedAt) {
					t.Errorf("order: %v", s)
				}
				if s["lead"].FinishedAt.After(began) {
					t.Errorf("the group's delay began anew: %v after the restart", s["lead"].FinishedAt.Sub(began))
				}
				for _, n := range []string{"lead", "other", "side"} {
					if slices.Contains(events(s[n]), "Restarting") || !slices.Contains(events(s[n]), "Killed") {
						t.Errorf("%s: %v", n, events(s[n]))
					}
				}
				if b.driver.lives() != 0 || len(b.driver.started) != 4 {
					t.Errorf("%d live, %d were started", b.driver.lives(), len(b.driver.started))
				}
			})
		})
	}
}

// While the driver cannot say whether an attempt runs already, none is begun, and the task says why.
func TestTaskWaitsForADriverThatCannotSayWhetherItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "web"})
		b.driver.silent = 3
		b.run(t.Context())
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		s := b.States()["web"]
		if got := events(s); len(b.driver.started) > 0 || !slices.Equal(got, []string{"Received", "Waiting"}) {
			t.Errorf("started %d, events %v", len(b.driver.started), got)
		}
		b.until(t, "running", running("web"))
	})
}
