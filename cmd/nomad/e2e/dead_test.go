package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// withPolicy creates a volume whose dead mounts are handled so.
func withPolicy(t *testing.T, a *kit.Agent, id, policy string) {
	t.Helper()
	spec := filepath.Join(a.Dir, id+".hcl")
	body := fmt.Sprintf(`id = %q
name = %q
type = "csi"
plugin_id = "hp"
capacity_min = "1MiB"
on_mount_dead = %q
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
`, id, id, policy)
	if err := os.WriteFile(spec, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := a.Run("volume", "create", spec); code != 0 {
		t.Fatalf("create volume: exit %d: %s", code, out)
	}
}

// published is the target of the only published volume.
func published(t *testing.T, a *kit.Agent) string {
	t.Helper()
	for _, m := range a.Mounts() {
		if strings.Contains(m, "/csi/monolith/hp/t/") {
			return m
		}
	}
	t.Fatalf("nothing is published: %q", a.Mounts())
	return ""
}

// dies puts a FUSE file system without a server over the path: all that it answers is ENOTCONN.
func dies(t *testing.T, path string) {
	t.Helper()
	fd, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	defer syscall.Close(fd)
	if err := syscall.Mount("dead", path, "fuse", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0"); err != nil {
		t.Skipf("cannot mount fuse here: %v", err)
	}
	t.Cleanup(func() { // a failed test leaves nothing that is dead
		_ = syscall.Unmount(path, syscall.MNT_DETACH)
	})
}

// told waits for an event of the allocation's task.
func told(t *testing.T, a *kit.Agent, alloc, kind, text string) time.Duration {
	t.Helper()
	return a.Until(30*time.Second, "event "+kind, func() error {
		info, _, err := a.API.Allocations().Info(alloc, nil)
		if err != nil {
			return err
		}
		var had []string
		for _, e := range info.TaskStates["main"].Events {
			if e.Type == kind && strings.Contains(e.DisplayMessage, text) {
				return nil
			}
			had = append(had, e.Type+": "+e.DisplayMessage)
		}
		return fmt.Errorf("events are %q", had)
	})
}

func deadAgent(t *testing.T, policy, script string) (*kit.Agent, *api.AllocationListStub) {
	t.Helper()
	a := kit.Start(t)
	a.Plugin("hp")
	withPolicy(t, a, "v1", policy)
	a.Register(kit.WithVolume(kit.ShellJob("w", script), "v1"))
	return a, a.Running("w", 1)
}

func TestDeadMountIsPublishedAnewAndTheTaskRestarted(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"republish", "restart"} {
		t.Run(policy, func(t *testing.T) {
			a, alloc := deadAgent(t, policy, forever)
			beats(t, a)
			dies(t, published(t, a))
			took := told(t, a, alloc.ID, "Volume Unhealthy", "v1")
			told(t, a, alloc.ID, "Restart Signaled", "volume v1 was dead")
			t.Logf("noticed after %v", took)
			a.Until(20*time.Second, "the second start", func() error {
				if n := strings.Count(journal(t, a), "start "+alloc.ID); n != 2 {
					return fmt.Errorf("started %d times", n)
				}
				return nil
			})
			beats(t, a)
			if again := a.Running("w", 1); again.ID != alloc.ID {
				t.Errorf("allocation %s was replaced by %s", alloc.ID, again.ID)
			}
			told(t, a, alloc.ID, "Volume Healthy", "v1")
			a.Stop("w", true)
			a.Free("v1")
			unmounted(t, a)
		})
	}
}
