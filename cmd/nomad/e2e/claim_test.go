package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// refuses runs a command that must fail with exit code 1 and the words in its text.
func refuses(t *testing.T, a *kit.Agent, words []string, args ...string) {
	t.Helper()
	out, code := a.Run(args...)
	if code != 1 {
		t.Errorf("nomad %s: exit %d, want 1: %s", strings.Join(args, " "), code, out)
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			t.Errorf("nomad %s does not say %q: %s", strings.Join(args, " "), word, out)
		}
	}
}

func TestPurgeWhileRunningFreesTheVolume(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	for range 3 {
		a.Register(kit.WithVolume(kit.ShellJob("w", forever), "v1"))
		a.Running("w", 1)
		if out, code := a.Run("job", "stop", "-purge", "-yes", "w"); code != 0 {
			t.Fatalf("exit %d: %s", code, out)
		}
		a.Free("v1")
		unmounted(t, a)
	}
	noOverlap(t, journal(t, a))
}

func TestClaimedVolumeIsNotRemoved(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	a.Register(kit.WithVolume(kit.ShellJob("w", forever), "v1"))
	alloc := a.Running("w", 1)

	holder := []string{"v1", alloc.ID[:8]}
	refuses(t, a, holder, "volume", "deregister", "v1")
	refuses(t, a, holder, "volume", "delete", "v1")
	refuses(t, a, holder, "volume", "detach", "v1", alloc.NodeID)
	if got := holders(volume(t, a, "v1")); len(got) != 1 || got[0] != alloc.ID {
		t.Errorf("held by %q", got)
	}
	beats(t, a)

	a.Stop("w", false)
	a.Free("v1")
	if !strings.Contains(journal(t, a), "stop "+alloc.ID) {
		t.Error("the data is gone")
	}
	if out, code := a.Run("volume", "delete", "v1"); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	if left, _ := filepath.Glob(a.Dir + "/hp/data/*"); len(left) != 0 {
		t.Errorf("left behind are %q", left)
	}
	refuses(t, a, []string{"v1"}, "volume", "status", "v1")
}

func TestDetachOfAnAllocationThatIsGone(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	a.Register(kit.WithVolume(kit.ShellJob("w", forever), "v1"))
	alloc := a.Running("w", 1)
	a.StopPlugin("hp")
	ended(t, a, "hp", "complete", 1)
	a.Stop("w", true)
	a.Until(20*time.Second, "the task to end", func() error {
		if !strings.Contains(journal(t, a), "stop "+alloc.ID) {
			return fmt.Errorf("it runs")
		}
		return nil
	})
	a.Until(20*time.Second, "the allocation to be collected or kept for its claim", func() error {
		if out, code := a.Run("system", "gc"); code != 0 {
			return fmt.Errorf("exit %d: %s", code, out)
		}
		info, _, err := a.API.Allocations().Info(alloc.ID, nil)
		if err == nil && info.ClientStatus == "running" {
			return fmt.Errorf("it is running")
		}
		return nil
	})
	if n := a.Claimed("v1"); n != 1 {
		t.Fatalf("%d claims although nobody unmounted the volume", n)
	}
	if out, code := a.Run("volume", "detach", "-force", "v1", alloc.NodeID); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	a.Free("v1")

	a.Plugin("hp")
	a.Register(kit.WithVolume(kit.ShellJob("next", forever), "v1"))
	a.Running("next", 1)
	a.Stop("next", true)
	a.Free("v1")
	unmounted(t, a)
}
