package volumes_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// replace puts the file system of somebody else in the place of what is mounted at the paths.
func (v *virtual) replace(paths ...string) {
	v.t.Helper()
	for _, p := range paths {
		if err := v.host.Unmount(p); err != nil {
			v.t.Fatal(err)
		}
		if err := v.host.Mount("9:9", "ext4", p, mounts.Flags{}); err != nil {
			v.t.Fatal(err)
		}
	}
}

// untouched expects the mounts of somebody else where they were put.
func (v *virtual) untouched(paths ...string) {
	v.t.Helper()
	for _, p := range paths {
		if at := v.on(p); at == nil || at.Dev != "9:9" {
			v.t.Errorf("at %s is %+v", p, at)
		}
	}
	_, shut := v.host.Ended()
	for _, dev := range append(shut, v.host.Aborted()...) {
		if dev == "9:9" {
			v.t.Error("the file system of somebody else was ended")
		}
	}
	for _, p := range paths {
		_ = v.host.Unmount(p)
	}
}

// A file system that hangs holds up the end of its lease. What is mounted at its paths by then has another lease.
func TestOnlyWhatWasMountedAtTheEndOfALeaseIsCutOff(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.leasedVolume()
		v.up(workload("w"))
		v.ownFileSystem("w")
		paths := v.svc.Lease("w").Unmount
		for _, p := range paths {
			v.host.Hang(p)
		}
		v.svc.EndLeases(leaseTerm, nobodyKeeps)
		synctest.Wait() // it waits for the first one
		v.replace(paths...)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		v.untouched(paths...)
		v.host.Wake()
		v.down("w")
	})
}

// The node waits for a mount that does not answer before it takes it away in the plugin's stead.
func TestNodeUnmountsOnlyWhatItHasSeen(t *testing.T) {
	for name, force := range map[string]bool{"given up": false, "by force": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				at := v.ownedBy("w")
				v.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Code: codes.Internal, Text: "broken driver"})
				var seen atomic.Bool
				v.host.Aborting(func(m *mounts.Entry) {
					if m.Point == at {
						v.replace(at)
						seen.Store(true)
					}
				})
				v.host.Hang(at)
				_ = v.svc.Down(t.Context(), "w")
				if force {
					_ = v.detach(&api.NodeVolumeDetachRequest{AllocID: "w", Force: true})
				}
				v.until("it is aborted", func() bool { return seen.Load() })
				synctest.Wait()
				v.untouched(at)
				v.host.Wake()
				v.driver.Heal()
				v.untilReleased("w")
			})
		})
	}
}
