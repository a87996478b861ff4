package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// slow is forever with a stop that takes its time.
var slow = strings.Replace(forever, "exit 0", "sleep 0.5; exit 0", 1)

func TestDestructiveUpdateOfAnExclusiveVolume(t *testing.T) {
	a := kit.Start(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	a.Register(kit.WithVolume(kit.ShellJob("w", slow), "v1"))
	last := a.Running("w", 1)
	for round := range 3 {
		job := kit.WithVolume(kit.ShellJob("w", slow), "v1")
		job.TaskGroups[0].Tasks[0].Env = map[string]string{"ROUND": fmt.Sprint(round)}
		a.Register(job)
		old := last
		a.Until(10*time.Second, "the successor to wait for the volume", func() error {
			for _, c := range claimsOf(t, a, "v1").Claims {
				if c.AllocID != old.ID && c.State == "waiting" && c.Predecessor == old.ID {
					return nil
				}
			}
			return fmt.Errorf("claims are %+v", claimsOf(t, a, "v1").Claims)
		})
		took := a.Until(30*time.Second, "the new version to run", func() error {
			found := a.Allocs("w", "running")
			if len(found) != 1 || found[0].ID == old.ID {
				return fmt.Errorf("%d run", len(found))
			}
			last = found[0]
			return nil
		})
		t.Logf("replaced in %v", took)
		if got := holders(volume(t, a, "v1")); len(got) != 1 || got[0] != last.ID {
			t.Fatalf("round %d: %s runs, the volume is held by %q", round, last.ID, got)
		}
		if end, start := firstEvent(t, a, old.ID, "Terminated"), firstEvent(t, a, last.ID, "Started"); !start.After(end) {
			t.Errorf("round %d: the new task started at %v, the old one ended at %v", round, start, end)
		}
	}
	beats(t, a)
	log := journal(t, a)
	noOverlap(t, log)
	if n := strings.Count(log, "start"); n != 4 {
		t.Errorf("%d starts", n)
	}
	if n := strings.Count(log, "stop"); n != 3 {
		t.Errorf("%d orderly stops", n)
	}
	a.Stop("w", false)
	a.Free("v1")
	unmounted(t, a)
}
