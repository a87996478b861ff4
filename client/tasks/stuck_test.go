package tasks_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// A task of which the kernel cannot end a process is not over: it may write still. People are told once what holds it.
func TestTaskIsNotOverWhileAProcessIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "batch", &api.Task{Name: "t", Config: lasting(time.Second, 0)})
		var told []string
		b.conf.Stuck = func(reason string) { told = append(told, reason) }
		b.renew(t)
		b.driver.left = []driver.Remain{{PID: 7, Name: "dd", State: 'D', In: "nfs_wait"}}
		wait := b.run(t.Context())
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := b.States()["t"]; s.State != api.TaskStateRunning {
			t.Errorf("the task is %s", s.State)
		}
		if len(told) != 1 || !strings.Contains(told[0], "task t: process 7 (dd) is stuck in the kernel (D state, in nfs_wait)") {
			t.Errorf("told %q", told)
		}
		for _, remedy := range []string{"bring the storage back", "restart the node", "volume detach -force"} {
			if len(told) == 1 && !strings.Contains(told[0], remedy) {
				t.Errorf("what to do is not told (%s): %q", remedy, told)
			}
		}
		events := 0
		for _, e := range b.States()["t"].Events {
			if e.Type == "Not Killable" {
				events++
			}
		}
		if events != 1 {
			t.Errorf("%d events", events)
		}
		b.driver.mu.Lock()
		b.driver.left = nil
		b.driver.mu.Unlock()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if s := b.States()["t"]; s.State != api.TaskStateDead {
			t.Errorf("the task is %s", s.State)
		}
	})
}

// People are told what a start waits for, while it does and when it cannot be ended; the task ends all the same.
func TestStartThatHangsIsToldAndGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "batch", &api.Task{Name: "t", Config: lasting(time.Second, 0)})
		b.driver.hang = true
		b.driver.hangErr = fault.New(fault.Unavailable, "the start hangs")
		b.driver.left = []driver.Remain{{PID: 7, Name: "nomad-supervise", State: 'S', In: "request_wait_answer"}}
		wait := b.run(t.Context())
		time.Sleep(time.Hour)
		synctest.Wait()
		told := map[string][]string{}
		tell := func() {
			clear(told)
			for _, e := range b.States()["t"].Events {
				told[e.Type] = append(told[e.Type], e.DisplayMessage)
			}
		}
		tell()
		if w := told["Waiting"]; len(w) != 1 || !strings.Contains(w[0], "process 7 (nomad-supervise) waits (S state, in request_wait_answer)") {
			t.Errorf("told %q", told)
		}
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		tell()
		if w := told["Not Killable"]; len(w) != 1 || w[0] != "the start hangs" || len(told[api.EventKilled]) != 1 {
			t.Errorf("told %q", told)
		}
	})
}
