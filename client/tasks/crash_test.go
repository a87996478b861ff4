package tasks_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/client/tasks"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// durable is what is left of the records of an allocation when the agent is killed: lazy writes count only when a
// durable one follows.
type durable struct {
	tasks.Store
	mu    sync.Mutex
	left  map[string]*store.TaskRecord
	wrong error // fails durable writes
}

func (d *durable) PutTask(task string, r *store.TaskRecord, now bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case now && d.wrong != nil:
		return d.wrong
	case now:
		kept := *r
		d.left[task] = &kept
	}
	return nil
}

// killedAt runs the group until the driver is asked to forget an attempt, and returns what is on record then.
func killedAt(t *testing.T, b *bench, attempt string) map[string]*store.TaskRecord {
	t.Helper()
	ctx, kill := context.WithCancel(t.Context())
	d := &durable{left: map[string]*store.TaskRecord{}}
	b.conf.Store = d
	var left map[string]*store.TaskRecord
	b.driver.forgets = func(id string) {
		if id == attempt {
			d.mu.Lock()
			left = map[string]*store.TaskRecord{}
			for name, r := range d.left {
				left[name] = r
			}
			d.mu.Unlock()
			kill()
		}
	}
	b.conf.Restored = nil
	g, err := tasks.New(b.conf)
	if err != nil {
		t.Fatal(err)
	}
	b.Group = g
	_ = b.run(ctx)()
	if left == nil {
		t.Fatalf("attempt %s was never forgotten", attempt)
	}
	b.driver.forgets = nil
	return left
}

func TestAttemptThatEndedIsNotRunAgainAfterACrash(t *testing.T) {
	for name, c := range map[string]struct {
		task   *api.Task
		starts int
		failed bool
	}{
		"well":            {&api.Task{Name: "t", Config: lasting(time.Second, 0)}, 1, false},
		"badly, for ever": {&api.Task{Name: "t", Config: lasting(time.Second, 1), RestartPolicy: &api.RestartPolicy{Mode: "fail"}}, 1, true},
		"badly": {&api.Task{Name: "t", Config: lasting(time.Second, 1), RestartPolicy: &api.RestartPolicy{
			Attempts: 1, Interval: time.Hour, Mode: "fail",
		}}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, "batch", c.task)
				b.conf.Restored = killedAt(t, b, "a1/t/1")
				g, err := tasks.New(b.conf)
				if err != nil {
					t.Fatal(err)
				}
				b.Group = g
				if err := b.run(t.Context())(); err != nil {
					t.Fatal(err)
				}
				s := g.States()["t"]
				if len(b.driver.started) != c.starts || s.Failed != c.failed || slices.Contains(events(s), "Failed Restoring Task") {
					t.Errorf("%d starts, want %d; failed %v; events %v", len(b.driver.started), c.starts, s.Failed, events(s))
				}
			})
		})
	}
}

// TestAttemptThatNobodyRecordedIsTakenUp: the agent was killed after a start and before the handle was durable.
func TestAttemptThatNobodyRecordedIsTakenUp(t *testing.T) {
	for name, stop := range map[string]bool{"and led to its end": false, "and stopped": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, "batch", &api.Task{Name: "t", Config: lasting(time.Minute, 0)})
				ctx, kill := context.WithCancel(t.Context())
				b.conf.Store = &durable{left: map[string]*store.TaskRecord{}}
				g, err := tasks.New(b.conf)
				if err != nil {
					t.Fatal(err)
				}
				b.Group = g
				wait := b.run(ctx)
				b.until(t, "running", running("t"))
				kill()
				_ = wait()
				if g, err = tasks.New(b.conf); err != nil { // nothing of the first is on record
					t.Fatal(err)
				}
				if b.Group = g; stop {
					g.Abandon(t.Context(), nil)
				} else if err := b.run(t.Context())(); err != nil {
					t.Fatal(err)
				}
				if s := g.States()["t"]; len(b.driver.started) != 1 || s.State != api.TaskStateDead || s.Failed {
					t.Errorf("%d starts; state %+v", len(b.driver.started), s)
				}
				if b.driver.lives() != 0 {
					t.Error("driver still knows the task")
				}
			})
		})
	}
}

// What an earlier agent process began is there at once, or never: to look costs each start.
func TestAttemptIsLookedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "batch", &api.Task{Name: "t", Config: lasting(time.Minute, 0)})
		if err := b.run(t.Context())(); err != nil {
			t.Fatal(err)
		}
		if n := len(b.driver.sought); n != 1 || len(b.driver.started) != 1 {
			t.Errorf("%d looks for %v before %d starts", n, b.driver.sought, len(b.driver.started))
		}
	})
}

func TestTracesOfAnAttemptStayWhileItsEndCannotBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "batch", &api.Task{Name: "t", Config: lasting(time.Second, 0)})
		d := &durable{left: map[string]*store.TaskRecord{}}
		b.conf.Store = d
		g, err := tasks.New(b.conf)
		if err != nil {
			t.Fatal(err)
		}
		b.Group = g
		wait := b.run(t.Context())
		b.until(t, "running", running("t"))
		d.mu.Lock()
		d.wrong = context.DeadlineExceeded
		d.mu.Unlock()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if s := g.States()["t"]; s.State != api.TaskStateDead || s.Failed {
			t.Errorf("state %+v", s)
		}
		if b.driver.lives() != 1 {
			t.Error("the driver was told to forget an attempt whose end is not durable")
		}
		if err := b.driver.Recover(t.Context(), &driver.Handle{TaskID: "a1/t/1"}); err != nil {
			t.Error(err)
		}
	})
}

// What is left of an attempt whose end is on record is nobody's: who cleans up need not spare it.
func TestOnlyAttemptsThatHaveNotEndedAreSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "batch", &api.Task{Name: "t", Config: lasting(time.Second, 0)})
		if got := b.Upcoming(); !slices.Equal(got, []string{"a1/t/1"}) {
			t.Errorf("before it runs: %v", got)
		}
		wait := b.run(t.Context())
		b.until(t, "running", running("t"))
		if got := b.Upcoming(); !slices.Equal(got, []string{"a1/t/1", "a1/t/2"}) {
			t.Errorf("while it runs: %v", got)
		}
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if got := b.Upcoming(); !slices.Equal(got, []string{"a1/t/2"}) {
			t.Errorf("after its end: %v", got)
		}
	})
}
