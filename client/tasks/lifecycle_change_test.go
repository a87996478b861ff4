package tasks_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// A job's update may make a poststop task of a main task that runs, and leaves its allocations as they are. Their end does
// not wait for that task to end by itself.
func TestMainTaskThatBecamePoststopIsEnded(t *testing.T) {
	for name, restarted := range map[string]bool{"by the same agent": false, "by an agent that is started anew meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				serves := &api.Task{Name: "serves"}
				b := setup(t, "service", &api.Task{Name: "main"}, serves, hook("after", "poststop", false, lasting(5*time.Second, 0)))
				ctx, cancel := context.WithCancel(t.Context())
				wait := b.run(ctx)
				b.until(t, "running", running("main", "serves"))
				next, job, group, changed := *b.conf.Alloc, *b.conf.Alloc.Job, *b.conf.Alloc.Group(), *serves
				changed.Lifecycle = &api.TaskLifecycle{Hook: api.TaskLifecycleHookPoststop}
				group.Tasks = slices.Clone(group.Tasks)
				group.Tasks[1] = &changed
				job.TaskGroups, next.Job = []*api.TaskGroup{&group}, &job
				b.Update(&next)
				if time.Sleep(time.Second); restarted {
					cancel()
					_ = wait()
					b.conf.Alloc = &next
					b.renew(t)
					if err := b.driver.Stop(t.Context(), "a1/main/1", "", 0); err != nil { // it is over when the agent is back
						t.Fatal(err)
					}
				}
				began := time.Now()
				b.Stop()
				if restarted {
					wait = b.run(t.Context())
				}
				time.AfterFunc(time.Hour, func() { _ = b.driver.Stop(t.Context(), "a1/serves/1", "", 0) })
				if err := wait(); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != 5*time.Second {
					t.Errorf("took %s, want the 5s of the poststop task", took)
				}
				s := b.States()
				if !slices.Contains(events(s["serves"]), "Killed") || slices.Contains(events(s["after"]), "Killed") {
					t.Errorf("serves %v, after %v", events(s["serves"]), events(s["after"]))
				}
				cancel()
			})
		})
	}
}
