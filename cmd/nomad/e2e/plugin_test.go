package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	t.Parallel()
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

// TestPluginLeavesWithItsLastAllocation: the list of plugins ends with the last allocation of one, and so does what needs it.
func TestPluginLeavesWithItsLastAllocation(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	a.Stop("hp", true)
	var ended time.Time
	took := a.Until(10*time.Second, "the plugin to leave the list", func() error {
		if ended.IsZero() && len(drivers(a)) == 0 {
			ended = time.Now()
		}
		list, _, err := a.API.CSIPlugins().List(nil)
		if err == nil && len(list) > 0 {
			err = fmt.Errorf("%+v", *list[0])
		}
		return err
	})
	if !ended.IsZero() {
		took = time.Since(ended)
	}
	kit.Measured(t, fmt.Sprintf("volume | job stop -purge of a plugin; it leaves the list | %v after its driver ended | <= 1 s", took.Round(time.Millisecond)))
	if !kit.Within(took, time.Second, 1) {
		t.Errorf("it left %v after its driver had ended", took)
	}
	file := filepath.Join(a.Dir, "late.hcl")
	if err := os.WriteFile(file, []byte(`
id = "late"
name = "late"
type = "csi"
plugin_id = "hp"
external_id = "late"
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := a.Run("volume", "register", file); code == 0 || !strings.Contains(out, "hp") {
		t.Errorf("a volume of a plugin that is gone was registered (%d): %s", code, out)
	}
	a.Plugin("hp")
	a.Register(kit.WithVolume(kit.ShellJob("w", forever), "v1"))
	a.Running("w", 1)
}
