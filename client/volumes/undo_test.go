package volumes_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/mounthealth"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// A driver whose unpublish removes the path, and fails when the path is gone, must still be told to unstage after
// one failed unstage.
func TestUnstageIsSentAgainThoughTheTargetIsGone(t *testing.T) {
	for _, code := range []codes.Code{codes.NotFound, codes.Internal, codes.Unknown, codes.InvalidArgument, codes.FailedPrecondition} {
		t.Run(code.String(), func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				v.up(workload("w"))
				v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Times: 1, Code: codes.Internal, Text: "busy"},
					fake.Fault{RPC: "NodeUnpublishVolume", Skip: 1, Code: code, Text: "no such path"})
				if err := v.svc.Down(t.Context(), "w"); err == nil {
					t.Error("an unmount whose unstage failed is a success")
				}
				begin := time.Now()
				v.untilReleased("w")
				if took := time.Since(begin); took > 10*time.Second {
					t.Errorf("it took %s", took)
				}
				v.clean()
			})
		})
	}
}

// Only the plugin's answer ends its work: one that was not reached may be about to mount.
func TestUnpublishThatWasNotAnsweredIsRepeated(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.up(workload("w"))["a"].Source
		if err := v.host.Unmount(at); err != nil {
			t.Fatal(err)
		}
		v.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Times: 2, Code: codes.Unavailable})
		if err := v.svc.Down(t.Context(), "w"); err == nil {
			t.Error("nothing is known of the plugin's work")
		}
		if n := v.count("NodeUnstageVolume"); n != 0 {
			t.Error("unstaged while an unpublish may be under way")
		}
		v.untilReleased("w")
		v.clean()
	})
}

// A driver that says yes and does nothing is not believed.
func TestUnpublishedIsWhatIsNotMountedAnyMore(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.up(workload("w"))["a"].Source
		v.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Times: 2, Reply: &csipb.NodeUnpublishVolumeResponse{}})
		if err := v.svc.Down(t.Context(), "w"); err == nil || !strings.Contains(err.Error(), "is still mounted") {
			t.Errorf("down: %v", err)
		}
		if v.released("w") || v.on(at) == nil || v.count("NodeUnstageVolume") != 0 {
			t.Fatal("the volume was given up under a mount")
		}
		v.untilReleased("w")
		v.clean()
	})
}

func TestPathsAreRemovedLast(t *testing.T) {
	inVirtualTime(t, fake.Config{KeepTarget: true}, func(t *testing.T, v *virtual) {
		at := v.up(workload("w"))["a"].Source
		v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Times: 1, Code: codes.Internal})
		_ = v.svc.Down(t.Context(), "w")
		if !v.host.HasDir(at) {
			t.Error("the target's path is gone before the unstage")
		}
		v.untilReleased("w")
		if v.host.HasDir(at) {
			t.Error("the target's path is left")
		}
	})
}

// A plugin that fails for long is not waited for: the node unmounts by itself, says so, and the volume is free.
func TestNodeUnmountsWhatThePluginCannot(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.up(workload("w"))
		v.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Code: codes.Internal, Text: "broken driver"},
			fake.Fault{RPC: "NodeUnstageVolume", Code: codes.Internal, Text: "broken driver"})
		begin := time.Now()
		_ = v.svc.Down(t.Context(), "w")
		v.untilReleased("w")
		if took := time.Since(begin); took < time.Minute || v.count("NodeUnpublishVolume") < 5 {
			t.Errorf("given up after %s and %d tries", took, v.count("NodeUnpublishVolume"))
		}
		if left, _ := v.host.Table(); len(left) > 0 {
			t.Errorf("%s is mounted still", left[0].Point)
		}
		if rows, _ := v.journal.All(); len(rows) > 0 {
			t.Errorf("the journal has %d records still", len(rows))
		}
		if !v.event("Unmounted in the plugin's stead") || v.users.count(volumes.EventUnmounted+" w v") < 2 {
			t.Errorf("nobody was told: %v", v.users.said)
		}
	})
}

// What somebody uses may be written to: the node does not pretend that it is unmounted.
func TestMountInUseStays(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.up(workload("w"))["a"].Source
		v.host.SetBusy(at, true)
		_ = v.svc.Down(t.Context(), "w")
		time.Sleep(10 * time.Minute)
		if v.released("w") || v.on(at) == nil {
			t.Fatal("a mount in use was given up")
		}
		v.servers.mu.Lock()
		why := strings.Join(v.servers.failures, "\n")
		v.servers.mu.Unlock()
		if !strings.Contains(why, "busy") {
			t.Errorf("the servers know only %q", why)
		}
		if err := v.detach(&api.NodeVolumeDetachRequest{AllocID: "w"}); err == nil {
			t.Error("a detach without force freed it")
		}
		if err := v.detach(&api.NodeVolumeDetachRequest{AllocID: "w", Force: true}); err != nil {
			t.Errorf("a forced detach: %v", err)
		}
		if v.on(at) != nil {
			t.Error("it is mounted still")
		}
	})
}

func TestForcedDetachNeedsNoPlugin(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.up(workload("w"))
		v.unplug()
		v.plugin()
		v.svc.Plugins().Drop("plug-" + v.kind)
		if err := v.svc.Down(t.Context(), "w"); err == nil {
			t.Fatal("unmounted without a plugin")
		}
		if err := v.detach(&api.NodeVolumeDetachRequest{AllocID: "w"}); err == nil {
			t.Error("a detach without force needs no plugin")
		}
		if err := v.detach(&api.NodeVolumeDetachRequest{AllocID: "w", Force: true}); err != nil {
			t.Fatal(err)
		}
		if left, _ := v.host.Table(); len(left) > 0 {
			t.Errorf("%s is mounted still", left[0].Point)
		}
		if rows, _ := v.journal.All(); len(rows) > 0 {
			t.Errorf("the journal has %d records still", len(rows))
		}
		v.plugIn(v.kind) // what the end of the test stops
	})
}

// The repair of a failed mount goes on after a failure at any of its calls.
func TestRepairGoesOnAfterEachFailure(t *testing.T) {
	for _, rpc := range []string{"NodeUnpublishVolume", "NodeUnstageVolume", "NodeStageVolume", "NodePublishVolume"} {
		t.Run(rpc, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				v.servers.onClaim(withPolicy(api.MountDeadRepublish))
				at := v.up(workload("w"))["a"].Source
				v.driver.Script(fake.Fault{RPC: rpc, Times: 1, Code: codes.Internal, Text: "once"},
					fake.Fault{RPC: "NodeUnpublishVolume", Skip: 1, Code: codes.Internal, Text: "no such path"})
				v.host.Kill(v.driver.Calls("NodeStageVolume")[0].Path)
				v.host.Kill(at)
				v.until("it is published anew", func() bool { return v.on(at) != nil && v.host.Statfs(at) == nil && v.users.count("restart") == 1 })
				v.driver.Heal()
				v.down("w")
				v.clean()
			})
		})
	}
}

func TestRepairUnmountsWhatThePluginCannot(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.servers.onClaim(withPolicy(api.MountDeadRepublish))
		at := v.up(workload("w"))["a"].Source
		v.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Code: codes.Internal, Text: "broken driver"})
		v.host.Kill(at)
		v.until("it is published anew", func() bool { return v.on(at) != nil && v.host.Statfs(at) == nil && v.users.count("restart") == 1 })
		if !v.event("Unmounted in the plugin's stead") {
			t.Error("nobody was told")
		}
		v.driver.Heal()
		v.down("w")
		v.clean()
	})
}

// held is users whose first restart takes until it is let go.
type held struct {
	*users
	begun, goOn chan struct{}
}

func (u held) Restart(ctx context.Context, alloc, volume string, all bool, why string) error {
	err := u.users.Restart(ctx, alloc, volume, all, why)
	select {
	case u.begun <- struct{}{}:
		<-u.goOn
	default:
	}
	return err
}

// A mount that fails again while its tasks are being restarted is repaired again.
func TestFailureDuringARepairIsRepairedToo(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		u := held{v.users, make(chan struct{}), make(chan struct{})}
		v.stop()
		v.conf.Tasks, v.conf.ProbeInterval = u, time.Second // the failure is noticed while the restart may take long
		v.start()
		v.servers.onClaim(withPolicy(api.MountDeadRepublish))
		at := v.up(workload("w"))["a"].Source
		v.host.Kill(at)
		<-u.begun // published anew; the tasks are being restarted
		v.host.Kill(at)
		v.until("the second failure is noticed", func() bool { return v.users.count(mounthealth.EventUnhealthy) == 2 })
		close(u.goOn)
		v.until("it is repaired", func() bool { return v.host.Statfs(at) == nil && v.users.count("restart") == 2 })
		v.down("w")
		v.clean()
	})
}

// Mounts that hang are no reason to refuse new ones.
func TestVolumesAreMountedBesideManyHungMounts(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		var hung []string
		for i := range 64 {
			v.driver.Storage().Add(fmt.Sprint("hung", i))
			hung = append(hung, v.up(workload(fmt.Sprint("w", i), &api.VolumeRequest{Source: fmt.Sprint("hung", i)}))["a"].Source)
		}
		for _, at := range hung {
			v.host.Hang(at)
		}
		time.Sleep(time.Minute) // all of them are asked and do not answer
		begin := time.Now()
		v.up(workload("w"))
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %s", took)
		}
		v.host.Wake()
		v.down("w")
		for i := range hung {
			v.down(fmt.Sprint("w", i))
		}
		v.clean()
	})
}

// The same on a real host: what the driver does not unmount the node does.
func TestRealMountsAreUnmountedInThePluginsStead(t *testing.T) {
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) { c.UndoPatience = 50 * time.Millisecond })
	r.plugIn("plug")
	at := r.up(workload("w"))["a"].Source
	r.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Code: codes.Internal}, fake.Fault{RPC: "NodeUnstageVolume", Code: codes.Internal})
	f, err := os.Create(filepath.Join(at, "open"))
	if err != nil {
		t.Fatal(err)
	}
	_ = r.svc.Down(r.ctx(), "w")
	r.servers.until(t, "told that it is busy", func() bool {
		return slices.ContainsFunc(r.servers.failures, func(s string) bool { return strings.Contains(s, "busy") })
	})
	if n := r.mounted(); n != 2 {
		t.Errorf("%d mounts while a file is open", n)
	}
	f.Close()
	r.servers.until(t, "released", func() bool { return r.servers.isReleased("w") })
	if n := r.mounted(); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}
