package faults

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// fuseBed has a driver whose mounts are served by processes beside it, and a writer on one of its volumes.
func fuseBed(t *testing.T) (b *bed, alloc *api.AllocationListStub) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	b = layout{fuse: true}.bed(t)
	b.volume("v1", nil)
	b.Register(writer("w", "v1"))
	b.runs("w", "v1", 20*time.Second)
	alloc = b.Running("w", 1)
	b.beats("v1", alloc.ID)
	return b, alloc
}

// lasting waits until the job writes again, or still, after its mount may have died.
func (b *bed) lasting(what string) time.Duration {
	b.t.Helper()
	count := func() int { return strings.Count(b.journal("v1"), "beat ") }
	before := count()
	return b.Until(60*time.Second, "a beat after "+what, func() error {
		if count() <= before {
			return fmt.Errorf("the journal stands still at %d beats; %s", before, b.tell("w"))
		}
		return nil
	})
}

// plugins are the processes of the driver itself, without those that serve its mounts.
func plugins(h *kit.Host) []int {
	return slices.DeleteFunc(drivers(h), func(pid int) bool {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || strings.Contains(string(cmdline), "\x00-serve\x00")
	})
}

func TestMountsServedByProcessesOutliveTheirPlugin(t *testing.T) {
	t.Parallel()
	b, _ := fuseBed(t)
	h := b.nodes[0]
	var took []time.Duration

	for _, pid := range plugins(h) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	b.PluginOn("hp", 1)
	took = append(took, b.lasting("the plugin was killed"))

	old := b.Running("hp", 1)
	next := b.driverJob()
	next.TaskGroups[0].Tasks[0].Env = map[string]string{"RELEASE": "2"}
	b.Register(next)
	b.Until(30*time.Second, "the new plugin", func() error {
		if found := b.Allocs("hp", "running"); len(found) != 1 || found[0].ID == old.ID {
			return fmt.Errorf("%d run", len(found))
		}
		return nil
	})
	b.PluginOn("hp", 1)
	took = append(took, b.lasting("the plugin was updated"))

	b.StopPlugin("hp")
	b.Until(20*time.Second, "the plugin to end", func() error {
		if n := len(b.Allocs("hp", "running")); n != 0 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	})
	b.Register(next)
	b.PluginOn("hp", 1)
	took = append(took, b.lasting("the plugin was stopped"))
	if n := b.starts("v1"); n != 1 {
		t.Errorf("the task was started %d times: its mount died", n)
	}

	b.Stop("w", false)
	b.clean()
	b.Until(10*time.Second, "the mounts' processes to end", func() error {
		if rest := len(drivers(h)) - len(plugins(h)); rest > 0 {
			return fmt.Errorf("%d run", rest)
		}
		return nil
	})
	b.figure("plugin of a FUSE driver killed, updated, stopped -force and back", "the job writes on, "+short(took...)+" after", "mounts outlive their plugin")
}

func TestClaimIsFreedThoughAnUnstageFailed(t *testing.T) {
	t.Parallel()
	b, _ := fuseBed(t)
	b.faults(script.Fault{RPC: "NodeUnstageVolume", Code: internal, Text: "the helper is busy", Times: 1})
	began := time.Now()
	b.Stop("w", false)
	b.Free("v1")
	took := time.Since(began)
	b.faults()
	b.clean()
	b.figure("FUSE driver, one failed unstage", "free after "+short(took), "the claim does not stick")
}
