package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// drivers are the processes of the embedded driver.
func drivers(a *kit.Agent) []int {
	var pids []int
	for _, pid := range a.Processes() {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.HasPrefix(string(cmdline), a.Binary+"\x00csi-hostpath\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// beats waits until the job's journal grows, which takes a mount that works.
func beats(t *testing.T, a *kit.Agent) {
	t.Helper()
	before := len(journal(t, a))
	a.Until(10*time.Second, "a beat on the volume", func() error {
		if len(journal(t, a)) <= before {
			return fmt.Errorf("the journal stands still")
		}
		return nil
	})
}

func TestPluginUpgradedWhileMounted(t *testing.T) {
	a := kit.Start(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	a.Register(kit.WithVolume(kit.ShellJob("w", forever), "v1"))
	worker, old := a.Running("w", 1), a.Running("hp", 1)

	next := a.PluginJob("hp")
	next.TaskGroups[0].Tasks[0].Env = map[string]string{"RELEASE": "2"}
	a.Register(next)
	a.Until(30*time.Second, "the new plugin", func() error {
		if found := a.Allocs("hp", "running"); len(found) != 1 || found[0].ID == old.ID {
			return fmt.Errorf("%d run", len(found))
		}
		return nil
	})
	a.PluginHealthy("hp")
	if now := a.Running("w", 1); now.ID != worker.ID {
		t.Fatalf("allocation %s was replaced by %s", worker.ID, now.ID)
	}
	beats(t, a)
	a.Stop("w", false)
	t.Logf("claim free after %v", a.Free("v1"))
	unmounted(t, a)
	if n := strings.Count(journal(t, a), "start"); n != 1 {
		t.Errorf("the task was started %d times", n)
	}
}

func TestPluginProcessKilledWhileMounted(t *testing.T) {
	a := kit.Start(t)
	a.Plugin("hp")
	for _, v := range []string{"v1", "v2"} {
		a.CreateVolume("hp", v)
	}
	a.Register(kit.WithVolume(kit.ShellJob("stays", "exec sleep 1000"), "v2"))
	stays := a.Running("stays", 1)
	before := a.Mounts()
	a.Register(kit.WithVolume(kit.ShellJob("w", forever), "v1"))
	a.Running("w", 1)
	if len(a.Mounts()) <= len(before) {
		t.Fatalf("the second volume is not mounted: %q", a.Mounts())
	}

	pids := drivers(a)
	if len(pids) != 1 {
		t.Fatalf("%d processes of the driver", len(pids))
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.Stop("w", false)
	t.Logf("claim free after %v", a.Free("v1"))
	a.PluginHealthy("hp")
	a.Until(10*time.Second, "the mounts of the stopped job to go", func() error {
		if now := a.Mounts(); !slices.Equal(now, before) {
			return fmt.Errorf("mounted are %q, were %q", now, before)
		}
		return nil
	})
	if now := a.Running("stays", 1); now.ID != stays.ID {
		t.Errorf("the job that stays was moved from %s to %s", stays.ID, now.ID)
	}
	if n := a.Claimed("v2"); n != 1 {
		t.Errorf("%d claims of the job that stays", n)
	}
	a.Stop("stays", false)
	a.Free("v2")
	unmounted(t, a)
	noViolation(t, a)
}
