package tasks_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// Nothing bounds poststop tasks and shutdown delays. Who wonders why a stopped allocation does not end is told, and how to
// end it.
func TestStopThatTakesLongSaysForWhatItWaits(t *testing.T) {
	waits := func(s *api.TaskState, text string) int {
		n := 0
		for _, e := range s.Events {
			if e.Type == "Waiting" && strings.Contains(e.DisplayMessage, text) {
				n++
			}
		}
		return n
	}
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "t"}, hook("after", "poststop", false, lasting(time.Hour, 0)), hook("quick", "poststop", false, lasting(time.Second, 0)))
		b.conf.Alloc.Group().ShutdownDelay = 10 * time.Minute
		wait := b.run(t.Context())
		b.until(t, "running", running("t"))
		b.Stop()
		time.Sleep(5 * time.Minute)
		if s := b.States(); waits(s["t"], "shutdown_delay of its group, 10m0s") != 1 || waits(s["after"], "") != 0 {
			t.Errorf("in the delay: %v %v", events(s["t"]), events(s["after"]))
		}
		time.Sleep(30 * time.Minute)
		if s := b.States(); waits(s["after"], "nomad alloc signal -s SIGKILL "+b.conf.Alloc.ID+" after") != 1 || waits(s["quick"], "") != 0 {
			t.Errorf("after it: %v %v", events(s["after"]), events(s["quick"]))
		}
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "t"}, hook("after", "poststop", false, lasting(time.Second, 0)))
		b.conf.Alloc.Group().ShutdownDelay = 2 * time.Second
		wait := b.run(t.Context())
		b.until(t, "running", running("t"))
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		for name, s := range b.States() {
			if slices.Contains(events(s), "Waiting") {
				t.Errorf("%s: %v", name, events(s))
			}
		}
	})
}
