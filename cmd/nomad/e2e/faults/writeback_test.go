package faults

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/disktest"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// A node that reaches its disk and no server has more in its page cache than can be written back within the lease: nothing
// of it reaches the disk after the servers have given the volume to another node.
func TestNothingIsWrittenBackAfterAVolumeHasMoved(t *testing.T) {
	t.Run("ext4/agent killed", func(t *testing.T) { notWrittenBack(t, "ext4", (*kit.Host).Kill9) })
	t.Run("xfs/agent runs", func(t *testing.T) { notWrittenBack(t, "xfs", func(*kit.Host) {}) })
	if soaktest.On() {
		t.Run("ext4/agent runs", func(t *testing.T) { notWrittenBack(t, "ext4", func(*kit.Host) {}) })
		t.Run("xfs/agent killed", func(t *testing.T) { notWrittenBack(t, "xfs", (*kit.Host).Kill9) })
	}
}

// notWrittenBack calls before with the node before it cuts the node off.
func notWrittenBack(t *testing.T, fs string, before func(*kit.Host)) {
	t.Helper()
	device, size := disktest.Loop(t, fs), disktest.KeptDirty(t)
	b := layout{nodes: 2, disk: device, fs: fs}.bed(t)
	b.volume("v1", map[string]any{"FenceAfter": time.Second, "Lease": lease, "WriteBack": 700 * time.Millisecond})
	job := kit.WithVolume(kit.ShellJob("w", fmt.Sprintf(`trap '' TERM INT
[ -e data/old ] && exec sleep 1000
echo old >data/old && sync -f data/old
dd if=/dev/zero of=data/big bs=1M count=%d 2>/dev/null; echo done >data/flag
while :; do echo more >>data/big; sleep 0.05; done`, size)), "v1")
	if b.driver != "" { // the kernel writes back what a cgroup has no memory for
		job.TaskGroups[0].Tasks[0].Resources.MemoryMB = ptr(int(size) + 512)
	}
	b.Register(job)
	old := b.Running("w", 1)
	from := b.host(old)
	to := b.other(from)
	on := func(h *kit.Host, file string) string {
		for _, m := range h.VolumeMounts() {
			if text, err := os.ReadFile(filepath.Join(m, file)); err == nil {
				return string(text)
			}
		}
		return ""
	}
	b.Until(30*time.Second, "the page cache to be dirty", func() error {
		if on(from, "flag") == "" {
			return fmt.Errorf("mounted are %q", from.VolumeMounts())
		}
		return nil
	})
	first, err := script.AllStaged(b.storage)
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	early, err := disktest.Written(device)
	if err != nil {
		t.Fatal(err)
	}
	if early -= first[0].After; early > size<<20/2 {
		t.Skipf("this host does not keep %d MiB dirty: %d MiB were written", size, early>>20)
	}

	before(from)
	cut := time.Now()
	from.Cut()
	next := b.moved("w", old.ID)
	if h := b.host(next); h != to {
		t.Fatalf("it moved to %s", h.Name)
	}
	all, err := script.AllStaged(b.storage)
	if err != nil || len(all) != 2 || all[1].Node != to.Name {
		t.Fatalf("the disk was staged %+v, %v", all, err)
	}
	seen := all[1]
	b.figure(fmt.Sprintf("node cut, %s, with %d MiB dirty, %s", path.Base(t.Name()), size, fs),
		fmt.Sprintf("%d MiB reached the device before the cut, %d until the next node staged it %s after the cut, %d KiB then",
			early>>20, (seen.Before-first[0].After-early)>>20, short(seen.At.Sub(cut)), (seen.After-seen.Before)>>10), "0 KiB then")
	if seen.Busy {
		t.Error("the old node had it mounted when the next one was told to mount it")
	}
	if seen.After != seen.Before {
		t.Errorf("%d KiB reached the device after the servers had given it away", (seen.After-seen.Before)>>10)
	}
	if m := from.VolumeMounts(); len(m) != 0 {
		t.Errorf("the cut node still has mounts: %q", m)
	}
	if text := on(to, "old"); text != "old\n" {
		t.Errorf("what was written back long ago is %q", text)
	}
	from.Heal()
	if !from.Alive() {
		from.Restart()
	}
	b.status(from, "ready")
	b.Stop("w", false)
	b.clean()
}
