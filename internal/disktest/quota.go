package disktest

import (
	"os/exec"
	"path/filepath"
)

// Btrfs mounts a btrfs of 1 GiB with enabled quotas, and returns where. It goes with the test. Where a host has none of this
// the test is skipped.
func Btrfs(t T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	image := filepath.Join(t.TempDir(), "image")
	for _, c := range [][]string{{"truncate", "-s", "1G", image}, {"mkfs.btrfs", "-q", image}, {"mount", "-t", "btrfs", "-o", "loop", image, dir}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v %s", c, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v %s", dir, err, out)
		}
	})
	if out, err := exec.Command("btrfs", "quota", "enable", dir).CombinedOutput(); err != nil {
		t.Skipf("btrfs quota enable: %v %s", err, out)
	}
	return dir
}
