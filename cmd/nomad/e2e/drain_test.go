package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

func TestDrainStopsThePluginLast(t *testing.T) {
	a := kit.Start(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	a.Register(kit.WithVolume(kit.ShellJob("w", forever), "v1"))
	worker, plugin := a.Running("w", 1), a.Running("hp", 1)

	if out, code := a.Run("node", "drain", "-enable", "-yes", worker.NodeID); code != 0 {
		t.Fatalf("drain: exit %d: %s", code, out)
	}
	ended(t, a, "w", "complete", 1)
	a.Free("v1")
	unmounted(t, a)
	ended(t, a, "hp", "complete", 1)
	work, driver := firstEvent(t, a, worker.ID, "Terminated"), firstEvent(t, a, plugin.ID, "Killing")
	if !driver.After(work) {
		t.Errorf("the plugin was killed at %v, the task ended at %v", driver, work)
	}
	a.Until(20*time.Second, "the drain to end", func() error {
		n, _, err := a.API.Nodes().Info(worker.NodeID, nil)
		if err != nil {
			return err
		}
		if n.DrainStrategy != nil || n.SchedulingEligibility != "ineligible" {
			return fmt.Errorf("drain %v, %s", n.DrainStrategy, n.SchedulingEligibility)
		}
		return nil
	})
	if n := a.Claimed("v1"); n != 0 {
		t.Errorf("%d claims after the drain", n)
	}

	if out, code := a.Run("node", "eligibility", "-enable", worker.NodeID); code != 0 {
		t.Fatalf("eligibility: exit %d: %s", code, out)
	}
	a.Running("hp", 1)
	a.Running("w", 1)
	if n := a.Claimed("v1"); n != 1 {
		t.Errorf("%d claims after the node is back", n)
	}
	noOverlap(t, journal(t, a))
}
