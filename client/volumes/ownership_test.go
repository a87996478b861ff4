package volumes_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// owned lets the servers say who owns the volume.
func (r *rig) owned(o api.VolumeOwner) {
	r.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
		out.Volume.Owner = &o
		return nil
	})
}

// ownerOf is the owner and mode of something on the volume, as it is at the provider.
func (r *rig) ownerOf(name string) string {
	r.t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(r.dir, "data", "v", name), &st); err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprintf("%d:%d %04o", st.Uid, st.Gid, st.Mode&0o7777)
}

func TestMountedVolumeBelongsToItsOwner(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.owned(api.VolumeOwner{UID: 1001, GID: 1002, Mode: "0750"})
	m := r.up(workload("w"))["a"]
	if got := r.ownerOf("."); got != "1001:1002 0750" || m.Owner == nil {
		t.Errorf("the root is %s, the mount says %+v", got, m.Owner)
	}
	if err := os.WriteFile(filepath.Join(m.Source, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.down("w")
	r.up(workload("same"))
	if got := r.ownerOf("f"); got != "0:0 0600" {
		t.Errorf("the root fits, and yet the file is %s", got)
	}
	r.down("same")
	r.owned(api.VolumeOwner{UID: 1001, GID: 1002, Policy: api.OwnerAlways})
	r.up(workload("always"))
	if got := r.ownerOf("f"); got != "1001:1002 0600" {
		t.Errorf("the file is %s", got)
	}
	r.down("always")
}

func TestReadOnlyVolumeKeepsItsOwner(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.owned(api.VolumeOwner{UID: 1001, GID: 1002})
	r.up(workload("w", &api.VolumeRequest{Source: "v", ReadOnly: true}))
	if got := r.ownerOf("."); !strings.HasPrefix(got, "0:0") {
		t.Errorf("the root is %s", got)
	}
	r.down("w")
}

func TestGroupIsLeftToDriversThatTakeIt(t *testing.T) {
	for _, can := range []bool{true, false} {
		r := newRig(t, fake.Config{MountGroup: can})
		r.plugIn("plug")
		r.owned(api.VolumeOwner{UID: 1001, GID: 1002})
		r.up(workload("w"))
		for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume"} {
			text := r.driver.Calls(rpc)[0].Request.(interface{ String() string }).String()
			if strings.Contains(text, "volume_mount_group") != can || can && !strings.Contains(text, "1002") {
				t.Errorf("driver takes groups: %v, %s got %s", can, rpc, text)
			}
		}
		want := map[bool]string{true: "1001:0", false: "1001:1002"}[can]
		if got := r.ownerOf("."); !strings.HasPrefix(got, want) {
			t.Errorf("driver takes groups: %v, the root is %s", can, got)
		}
		r.down("w")
	}
}

// What is not mounted any more when its files have been given to their owner is mounted again before anybody uses it.
func TestVolumeThatIsUnmountedDuringTheWalkIsMountedAgain(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.stop()
		walks := 0
		v.conf.Own = func(_ context.Context, path string, _ *api.VolumeOwner, _ bool, _ *atomic.Int64) error {
			if walks++; walks == 1 {
				return v.host.Unmount(path)
			}
			return nil
		}
		v.start()
		v.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
			out.Volume.Owner = &api.VolumeOwner{UID: 1, GID: 1, Policy: api.OwnerAlways}
			return nil
		})
		if at := v.up(workload("w"))["a"].Source; v.on(at) == nil || walks != 2 {
			t.Errorf("after %d walks nothing is mounted at %s", walks, at)
		}
		v.down("w")
		v.clean()
	})
}
