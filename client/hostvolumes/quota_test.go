package hostvolumes_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/disktest"
)

// sized creates a volume of so many bytes, or changes its size.
func (n *node) sized(v *api.HostVolume, bytes int64) (string, error) {
	v.RequestedCapacityMaxBytes = bytes
	return n.create(v)
}

// fits checks that so many bytes fit into the directory, beside what is in it, and no MB more.
func fits(t *testing.T, path string, bytes int) {
	t.Helper()
	name := filepath.Join(path, "data"+strconv.Itoa(bytes))
	if err := os.WriteFile(name, make([]byte, bytes-100_000), 0o600); err != nil {
		t.Errorf("%d bytes do not fit: %v", bytes, err)
	}
	if err := os.WriteFile(filepath.Join(path, "more"), make([]byte, 1_000_000), 0o600); err == nil {
		t.Errorf("a MB more than %d bytes fits", bytes)
	}
	if err := os.Remove(filepath.Join(path, "more")); err != nil {
		t.Fatal(err)
	}
}

func TestSizeOfAQuotaVolume(t *testing.T) {
	t.Parallel()
	for method, make := range map[string]func(*testing.T) string{"loop": (*testing.T).TempDir, "btrfs": func(t *testing.T) string { return disktest.Btrfs(t) }} {
		t.Run(method, func(t *testing.T) {
			n := start(t, make(t), &records{all: map[string][]byte{}})
			attributes := n.Fingerprint(t.Context())
			if attributes["plugins.host_volume.quota.version"] == "" {
				t.Skip("needs root, mkfs.ext4 and loop devices")
			}
			if method != "loop" && attributes["plugins.host_volume.quota.method"] != method {
				t.Errorf("%v", attributes)
			}
			_, err := n.create(volume("data", "quota", nil))
			refused(t, err, "needs capacity_min or capacity_max")
			_, err = n.sized(volume("data", "quota", map[string]string{"method": "tape"}), 10_000_000)
			refused(t, err, "is not one of project, btrfs, loop")
			v := volume("data", "quota", map[string]string{"method": method, "mode": "0751"})
			path, err := n.sized(v, 10_000_000)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { deleted(t, n, v) }()
			fits(t, path, 10_000_000)
			if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o751 {
				t.Errorf("%+v %v", st, err)
			}
			if method == "loop" {
				if out, err := exec.Command("umount", path).CombinedOutput(); err != nil { // as a reboot does
					t.Fatalf("%s", out)
				}
			}
			n = start(t, n.dir, n.records)
			if _, err := os.Stat(filepath.Join(path, "data10000000")); err != nil {
				t.Errorf("the data is not there after a restart: %v", err)
			}
			if method == "loop" && !maySizeFileSystems(t) {
				_, err = n.sized(v, 30_000_000)
				refused(t, err, "CAP_SYS_RESOURCE")
				return
			}
			for range 2 { // the answer was lost
				if _, err := n.sized(v, 30_000_000); err != nil || n.offers("data").CapacityBytes != 30_000_000 {
					t.Errorf("the volume does not grow: %v %+v", err, n.offers("data"))
				}
			}
			fits(t, path, 20_000_000)
			_, err = n.sized(v, 20_000_000)
			refused(t, err, "does not shrink")
			other := *v
			other.Parameters = map[string]string{"method": map[string]string{"loop": "btrfs", "btrfs": "loop"}[method]}
			_, err = n.sized(&other, 30_000_000)
			refused(t, err, "which does not change")
		})
	}
}

// deleted deletes the volume, of which nothing may be left.
func deleted(t *testing.T, n *node, v *api.HostVolume) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := n.Delete(ctx, &api.NodeHostVolumeRequest{Volume: v}); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(n.dir, "volumes", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// maySizeFileSystems reports whether the test may change the size of a mounted ext4.
func maySizeFileSystems(t *testing.T) bool {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	return caps[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// TestVolumeThatWasNotComplete: an agent that was killed while it made the file system has left that mounted.
func TestVolumeThatWasNotComplete(t *testing.T) {
	t.Parallel()
	n := start(t, t.TempDir(), &records{all: map[string][]byte{}})
	if n.Fingerprint(t.Context())["plugins.host_volume.quota.version"] == "" {
		t.Skip("needs root, mkfs.ext4 and loop devices")
	}
	v := volume("data", "quota", map[string]string{"method": "loop"})
	path := filepath.Join(n.dir, "volumes", v.ID)
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{{"truncate", "-s", "8M", path + ".new"}, {"mkfs.ext4", "-q", path + ".new"}, {"mount", "-o", "loop", path + ".new", path}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v %s", c, err, out)
		}
	}
	defer func() { deleted(t, n, v) }()
	if _, err := n.sized(v, 10_000_000); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + ".img"); err != nil {
		t.Errorf("the volume has no file: %v", err)
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the draft is left: %v", err)
	}
	fits(t, path, 10_000_000)
}
