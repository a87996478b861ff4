package tasks_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// An operator who gives a running task more time to end must not see it killed by the time of before.
func TestTaskIsStoppedAsItsPresentJobSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "t", KillTimeout: 8 * time.Second, ShutdownDelay: time.Hour})
		wait := b.run(t.Context())
		b.until(t, "running", running("t"))
		next, job, group := *b.conf.Alloc, *b.conf.Alloc.Job, *b.conf.Alloc.Group()
		group.Tasks = []*api.Task{{Name: "t", Driver: "fake", KillTimeout: 20 * time.Second, KillSignal: "SIGTERM", ShutdownDelay: time.Second}}
		job.TaskGroups = []*api.TaskGroup{&group}
		next.Job = &job
		b.Update(&next)
		began := time.Now()
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %s, want the new shutdown_delay", took)
		}
		if want := []string{"SIGTERM 20s"}; !slices.Equal(b.driver.stops, want) {
			t.Errorf("stopped by %v, want %v", b.driver.stops, want)
		}
		for _, e := range b.States()["t"].Events {
			if e.Type == "Killing" && e.Details["kill_timeout"] != "20s" {
				t.Errorf("the event says %v", e.Details)
			}
		}
	})
}

// A group that ends by itself does not end before its drivers have removed what they keep, nor wait for them without bound.
func TestAttemptIsDestroyedBeforeItsGroupEnds(t *testing.T) {
	for takes, want := range map[time.Duration]struct{ left, seconds int }{30 * time.Second: {0, 31}, time.Hour: {1, 61}} {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t, "batch", &api.Task{Name: "t", Config: lasting(time.Second, 0)})
			b.driver.slow = takes
			began := time.Now()
			if err := b.run(t.Context())(); err != nil {
				t.Fatal(err)
			}
			if took := int(time.Since(began).Seconds()); b.driver.lives() != want.left || took != want.seconds {
				t.Errorf("a removal that takes %s: %d attempts are left after %d s, want %d after %d s", takes, b.driver.lives(), took, want.left, want.seconds)
			}
		})
	}
}
