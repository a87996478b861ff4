package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/disktest"
)

// onBtrfs is an agent whose data directory is on a btrfs with quotas. It is not started.
func onBtrfs(t *testing.T) *kit.Agent {
	t.Helper()
	disk := disktest.Btrfs(t)
	a := kit.Prepare(t)
	data := filepath.Join(a.Dir, "data")
	if err := errors.Join(os.MkdirAll(data, 0o755), unix.Mount(disk, data, "", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	return a
}

// fill is a script that writes 101 MB to $NOMAD_ALLOC_DIR/data/f unless the file is there, and then lives on.
const fill = `[ -e $NOMAD_ALLOC_DIR/data/f ] || dd if=/dev/zero of=$NOMAD_ALLOC_DIR/data/f bs=1048576 count=101; exec sleep 600`

// sized waits until the allocation has used its 100 MB and was notified.
func sized(t *testing.T, a *kit.Agent, job string) *api.AllocationListStub {
	t.Helper()
	alloc := a.Running(job, 1)
	a.Until(2*time.Minute, "the full disk of "+job, func() error {
		for _, e := range a.Allocs(job, "running")[0].TaskStates["main"].Events {
			if strings.Contains(e.DisplayMessage, "has used the 100 MiB of its ephemeral disk") {
				return nil
			}
		}
		return errors.New("no event names it")
	})
	if st, err := os.Stat(filepath.Join(a.Dir, "data/alloc", alloc.ID, "alloc/data/f")); err != nil || st.Size() > 100<<20 || st.Size() < 98<<20 {
		t.Errorf("%+v %v", st, err)
	}
	return alloc
}

// TestSizeOfAnEphemeralDisk: the 101st MB fails, the node and other allocations stay healthy, also when the agent is killed, and the
// data of a sticky disk counts for the next allocation.
func TestSizeOfAnEphemeralDisk(t *testing.T) {
	t.Parallel()
	a := onBtrfs(t)
	a.Launch()
	a.Ready(1)
	j := kit.ShellJob("exec", fill)
	j.TaskGroups[0].EphemeralDisk = &api.EphemeralDisk{SizeMB: new(100), Sticky: new(true)}
	j.TaskGroups[0].Tasks[0].Driver, j.TaskGroups[0].Tasks[0].Resources.MemoryMB = "exec", new(200) // what is written stays in memory
	a.Register(j)
	first := sized(t, a, "exec")
	a.Kill()
	a.Launch()
	a.Ready(1)
	if now := a.Running("exec", 1); now.ID != first.ID {
		t.Fatalf("allocation %s is replaced by %s", first.ID, now.ID)
	}
	a.Register(kit.ShellJob("other", "echo fits > $NOMAD_ALLOC_DIR/data/f; exec sleep 600"))
	a.Running("other", 1)
	if out, code := a.Run("alloc", "stop", "-detach", first.ID); code != 0 {
		t.Fatal(out)
	}
	var next *api.AllocationListStub
	a.Until(60*time.Second, "the next allocation", func() error {
		for _, r := range a.Allocs("exec", "running") {
			if r.ID != first.ID {
				next = r
				return nil
			}
		}
		return fmt.Errorf("%d run", len(a.Allocs("exec", "running")))
	})
	if st, err := os.Stat(filepath.Join(a.Dir, "data/alloc", next.ID, "alloc/data/f")); err != nil || st.Size() < 98<<20 {
		t.Errorf("the data: %+v %v", st, err)
	}
	a.Stop("exec", true)
	a.Until(30*time.Second, "the files to be removed", func() error {
		if out, code := a.Run("system", "gc"); code != 0 {
			return errors.New(out)
		}
		if left, err := os.ReadDir(filepath.Join(a.Dir, "data/alloc")); err != nil || len(left) != 1 {
			return fmt.Errorf("%v %v", left, err)
		}
		return nil
	})
}

func TestSizeOfAnEphemeralDiskOfAContainer(t *testing.T) {
	a := onBtrfs(t)
	engineOf(t, a)
	a.Ready(1)
	j := containerJob("container", "fill", "/alloc/data/f", "101")
	j.TaskGroups[0].EphemeralDisk = &api.EphemeralDisk{SizeMB: new(100)}
	j.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(200)
	a.Register(j)
	sized(t, a, "container")
}
