package tasks_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// The clock of these tests begins at midnight UTC.
func office() *api.Task {
	return &api.Task{Name: "t", Schedule: &api.TaskSchedule{Cron: &api.TaskScheduleCron{Start: "0 9 * * * *", End: "0 17", Timezone: "UTC"}}}
}

func (b *bench) paused(t *testing.T, state, paused string) {
	t.Helper()
	synctest.Wait()
	if s := b.States()["t"]; s.State != state || s.Paused != paused {
		t.Errorf("at %s: %s, paused %q, want %s, %q", time.Now().UTC().Format(time.TimeOnly), s.State, s.Paused, state, paused)
	}
}

// become updates the allocation in place.
func (b *bench) become(task *api.Task) {
	task.Driver = "fake"
	next, job, group := *b.conf.Alloc, *b.conf.Alloc.Job, *b.conf.Alloc.Group()
	group.Tasks = []*api.Task{task}
	job.TaskGroups = []*api.TaskGroup{&group}
	next.Job = &job
	b.Update(&next)
}

func TestTaskRunsInItsWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", office())
		wait := b.run(t.Context())
		b.paused(t, api.TaskStatePending, api.PausedBySchedule)
		time.Sleep(9 * time.Hour)
		b.paused(t, api.TaskStateRunning, "")
		time.Sleep(8*time.Hour - time.Second)
		b.paused(t, api.TaskStateRunning, "")
		time.Sleep(time.Second)
		b.paused(t, api.TaskStatePending, api.PausedBySchedule)
		if b.driver.lives() != 0 {
			t.Error("the driver still knows the task")
		}
		time.Sleep(16 * time.Hour)
		b.paused(t, api.TaskStateRunning, "")
		s := b.States()["t"]
		if want := []string{"Received", "Pausing", "Running", "Task Setup", "Started", "Pausing", "Terminated", "Running", "Started"}; !slices.Equal(events(s), want) {
			t.Errorf("events %v", events(s))
		}
		if s.Restarts != 0 {
			t.Errorf("%d restarts", s.Restarts)
		}
		for _, e := range s.Events {
			if e.Type == "Pausing" && !strings.Contains(e.DisplayMessage, "until 2000-01-0") {
				t.Errorf("event %q", e.DisplayMessage)
			}
		}
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPausedTaskIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", office())
		wait := b.run(t.Context())
		b.paused(t, api.TaskStatePending, api.PausedBySchedule)
		began := time.Now()
		b.Stop()
		if err := wait(); err != nil || time.Since(began) != 0 {
			t.Fatalf("%v after %s", err, time.Since(began))
		}
		if s := b.States()["t"]; s.State != api.TaskStateDead || s.Failed || len(b.driver.started) > 0 {
			t.Errorf("state %+v, started %v", s, b.driver.started)
		}
	})
}

func TestUserPausesAndRunsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", office())
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.run(ctx)
		set := func(state string) {
			t.Helper()
			if err := b.Pause("t", state); err != nil {
				t.Fatal(err)
			}
		}
		b.paused(t, api.TaskStatePending, api.PausedBySchedule)
		if err := b.Restart(t.Context(), "t", false); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "nomad alloc pause -state=run a1 t") {
			t.Errorf("restart while paused: %v", err)
		}
		set("run")
		b.paused(t, api.TaskStateRunning, api.RunByUser)
		time.Sleep(48 * time.Hour)
		b.paused(t, api.TaskStateRunning, api.RunByUser)

		// A restart of the agent keeps what the user wants.
		cancel()
		_ = wait()
		b.renew(t)
		ctx, cancel = context.WithCancel(t.Context())
		wait = b.run(ctx)
		b.paused(t, api.TaskStateRunning, api.RunByUser)
		set("scheduled")
		b.paused(t, api.TaskStatePending, api.PausedBySchedule)
		time.Sleep(10 * time.Hour)
		b.paused(t, api.TaskStateRunning, "")
		set("pause")
		b.paused(t, api.TaskStatePending, api.PausedByUser)
		time.Sleep(24 * time.Hour)
		b.paused(t, api.TaskStatePending, api.PausedByUser)
		cancel()
		_ = wait()
		b.renew(t)
		wait = b.run(t.Context())
		b.paused(t, api.TaskStatePending, api.PausedByUser)
		if state, err := b.PauseState(""); err != nil || state != "force_pause" {
			t.Errorf("state %q, %v", state, err)
		}
		set("scheduled")
		b.paused(t, api.TaskStateRunning, "")
		if state, err := b.PauseState("t"); err != nil || state != "run" {
			t.Errorf("state %q, %v", state, err)
		}
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if err := b.Pause("t", "run"); !errors.Is(err, fault.Conflict) {
			t.Errorf("pause of a dead task: %v", err)
		}
	})
}

func TestAgentThatComesBackAfterTheWindowPausesTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", office())
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.run(ctx)
		time.Sleep(10 * time.Hour)
		b.paused(t, api.TaskStateRunning, "")
		cancel()
		_ = wait()
		time.Sleep(8 * time.Hour)
		b.renew(t)
		wait = b.run(t.Context())
		b.paused(t, api.TaskStatePending, api.PausedBySchedule)
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestNewScheduleCountsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", office())
		wait := b.run(t.Context())
		b.paused(t, api.TaskStatePending, api.PausedBySchedule)
		early := office()
		early.Schedule.Cron.Start = "0 0 * * * *"
		b.become(early)
		b.paused(t, api.TaskStateRunning, "")
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	})
}

// Schedules come and go with updates in place.
func TestScheduleIsAddedToARunningTaskAndRemovedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain := &api.Task{Name: "t"}
		b := setup(t, "service", plain)
		wait := b.run(t.Context())
		b.paused(t, api.TaskStateRunning, "")
		b.become(office())
		b.paused(t, api.TaskStatePending, api.PausedBySchedule)
		b.become(plain)
		b.paused(t, api.TaskStateRunning, "")
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTasksThatCannotBePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "plain"}, office())
		for _, c := range []struct {
			task, state string
			class       fault.Class
		}{
			{"plain", "pause", fault.Invalid}, {"none", "pause", fault.NotFound}, {"", "pause", fault.Invalid}, {"t", "sleep", fault.Invalid},
		} {
			if err := b.Pause(c.task, c.state); !errors.Is(err, c.class) {
				t.Errorf("%s %s: %v", c.task, c.state, err)
			}
		}
	})
}
