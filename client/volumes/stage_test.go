package volumes_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// typed answers claims with the types of file systems that allocations ask for.
func (v *virtual) typed(of map[string]string) {
	v.servers.onClaim(func(_ context.Context, q *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
		out.Claim.MountOptions = &api.MountOptions{FSType: of[q.AllocID]}
		return nil
	})
}

// A staging of unknown outcome may be there with the options of who asked for it: others wait.
func TestOptionsOfAStagingOfUnknownOutcomeCount(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.typed(map[string]string{"first": "ext4", "second": "xfs"})
		v.driver.Script(fake.Fault{RPC: "NodeStageVolume", Code: codes.Unavailable, Late: true})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _, _ = v.svc.Up(ctx, workload("first")) })
		v.until("the first is staged maybe", func() bool { return v.count("NodeStageVolume") > 0 })
		all.Go(func() { v.up(workload("second")) })
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := v.stagedTypes(); !slices.Equal(slices.Compact(got), []string{"ext4"}) {
			t.Errorf("staged as %v", got)
		}
		stop()
		v.driver.Heal()
		v.until("the first is down", func() bool { return v.svc.Down(t.Context(), "first") == nil })
		all.Wait()
		v.down("second")
		v.clean()
	})
}

// stagedTypes are the types of file systems with which the volume was staged, in order.
func (v *virtual) stagedTypes() (out []string) {
	for _, c := range v.driver.Calls("NodeStageVolume") {
		out = append(out, c.Request.(*pb.NodeStageVolumeRequest).GetVolumeCapability().GetMount().GetFsType())
	}
	return out
}

// Who cannot share a volume with a user that leaves waits for it.
func TestUserThatLeavesIsWaitedFor(t *testing.T) {
	for name, differ := range map[string]func(*api.VolumeClaim){
		"another file system": func(c *api.VolumeClaim) { c.MountOptions = &api.MountOptions{FSType: "xfs"} },
		"a device":            func(c *api.VolumeClaim) { c.AttachmentMode = api.AttachmentBlock },
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				first := true
				v.servers.onClaim(func(_ context.Context, q *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
					if out.Claim.MountOptions = (&api.MountOptions{FSType: "ext4"}); !first {
						differ(out.Claim)
					}
					return nil
				})
				v.up(workload("first"))
				first = false
				v.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Times: 3, Code: codes.Unavailable})
				if err := v.svc.Down(t.Context(), "first"); err == nil {
					t.Fatal("unpublished")
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { _, err := v.svc.Up(ctx, workload("second")); ended <- err }()
				v.untilReleased("first")
				select {
				case err := <-ended:
					if err != nil {
						t.Errorf("it did not wait: %v", err)
					}
				default: // of a device nothing more is played here
				}
				stop()
				v.until("the second is down", func() bool { return v.svc.Down(t.Context(), "second") == nil })
				v.clean()
			})
		})
	}
}

// A file system that is mounted for readers too grows through the mount of the one that writes.
func TestVolumeGrowsThroughAMountThatIsWrittenTo(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.servers.onClaim(func(_ context.Context, q *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
			if q.AllocID != "j" {
				out.Claim.Mode = api.ClaimRead
			}
			return nil
		})
		v.up(workload("a"))
		at := v.up(workload("j"))["a"].Source
		v.up(workload("z"))
		if _, err := serve(t, v.svc, t.Context(), wire.NodeVolumeExpand, &api.NodeVolumeExpandRequest{
			Namespace: "default", VolumeID: "v", ExternalID: "v", PluginID: "p", CapacityBytes: 1 << 20,
		}); err != nil {
			t.Error(err)
		}
		calls := v.driver.Calls("NodeExpandVolume")
		if len(calls) != 1 || calls[0].Request.(*pb.NodeExpandVolumeRequest).GetVolumePath() != at {
			t.Errorf("it grows by %v, the writer has it at %s", calls, at)
		}
		for _, id := range []string{"a", "j", "z"} {
			v.down(id)
		}
		v.clean()
	})
}

// Many drivers mount nothing at the staging path: they open a session, or a device. The mount table says nothing of
// their unstage, and a volume that is detached below an open session loses what was not written yet.
func TestUnstageOfWhatIsNoMountIsOverWhenTheDriverSaysSo(t *testing.T) {
	for _, code := range []codes.Code{codes.Internal, codes.Unknown, codes.FailedPrecondition} {
		t.Run(code.String(), func(t *testing.T) {
			inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
				v.up(workload("w"))
				v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Times: 2, Code: code, Text: "the session is busy"})
				if err := v.svc.Down(t.Context(), "w"); err == nil {
					t.Error("it is taken for over")
				}
				v.untilReleased("w")
				if n := v.count("NodeUnstageVolume"); n != 3 {
					t.Errorf("%d unstages", n)
				}
				v.clean()
			})
		})
	}
}

// A driver that has unmounted the staging and fails at what is below it, such as a device to close, is asked again,
// and not for ever: others fail at each unstage of what is gone.
func TestUnstageThatFailsBelowTheMountIsRepeatedAFewTimes(t *testing.T) {
	for name, fails := range map[string]int{"for a while": 2, "always": 0} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				v.up(workload("w"))
				v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Times: fails, Late: true, Code: codes.Internal, Text: "the device is busy"})
				begin := time.Now()
				if err := v.svc.Down(t.Context(), "w"); err == nil {
					t.Error("it is taken for over")
				}
				v.untilReleased("w")
				if n := v.count("NodeUnstageVolume"); n != 3 {
					t.Errorf("%d unstages", n)
				}
				if took := time.Since(begin); took > 10*time.Second {
					t.Errorf("it took %s", took)
				}
				v.clean()
			})
		})
	}
}

// What the plugin cannot end is given up, and said.
func TestSessionThatIsNeverClosedIsGivenUp(t *testing.T) {
	inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
		v.up(workload("w"))
		v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Code: codes.Internal, Text: "the session is busy"})
		begin := time.Now()
		_ = v.svc.Down(t.Context(), "w")
		v.untilReleased("w")
		if took := time.Since(begin); took < time.Minute {
			t.Errorf("given up after %s", took)
		}
		if !v.event("Unmounted in the plugin's stead") {
			t.Error("nobody is told")
		}
	})
}

// No session outlives a boot, and drivers may fail at what they do not know any more.
func TestSessionOfAnEarlierBootIsNotWaitedFor(t *testing.T) {
	inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
		v.up(workload("w"))
		v.stop()
		v.host.Reboot()
		v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Code: codes.Internal, Text: "no such session"})
		v.start()
		begin := time.Now()
		_ = v.svc.Down(t.Context(), "w")
		v.untilReleased("w")
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// What a driver opened without a mount is gone with the boot, and the mount table does not tell.
func TestStagingWithoutAMountIsMadeAgainAfterABoot(t *testing.T) {
	inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
		v.up(workload("w"))
		v.stop()
		v.host.Reboot()
		v.start()
		v.up(workload("w"))
		if n := v.count("NodeStageVolume"); n != 2 {
			t.Errorf("staged %d times in two boots", n)
		}
	})
}

// forgotten reports whether the journal is empty.
func (v *virtual) forgotten() bool {
	rows, _ := v.journal.All()
	return len(rows) == 0
}

// A driver may close a session and fail to say so. The next user must not believe that it is open.
func TestSessionThatMayBeClosedIsOpenedAgain(t *testing.T) {
	inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
		v.up(workload("w"))
		v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Times: 1, Code: codes.Internal, Late: true})
		if err := v.svc.Down(t.Context(), "w"); err == nil {
			t.Fatal("the unstage succeeds")
		}
		v.up(workload("next"))
		v.untilReleased("w")
		v.down("next")
		v.clean()
	})
}

// Volumes are taken down without a disk, so that what is on disk may tell of a session that was closed since. The next agent
// process believes in one only while somebody has something mounted of it.
func TestSessionThatWasClosedWithoutADiskIsOpenedAgain(t *testing.T) {
	for name, stays := range map[string]bool{"nobody has it": false, "somebody has it": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
				v.stop()
				disk := &failing{bucket: v.journal}
				v.conf.Journal = disk
				v.start()
				over, w := workload("over"), workload("w")
				v.up(over)
				stages := 2
				if stays {
					v.up(w)
					stages = 1
				}
				disk.down.Store(true)
				v.down("over")
				v.stop()
				disk.down.Store(false)
				v.start()
				v.knows(over, w)
				v.up(workload("next"))
				if n := v.count("NodeStageVolume"); n != stages {
					t.Errorf("the session was opened %d times, want %d", n, stages)
				}
				v.down("over")
				v.down("next")
				v.down("w")
				v.clean()
			})
		})
	}
}

// A file system that was shut down at the end of a lease is still there while somebody has files of it: mounted again it is
// the same one, which takes no write and answers statfs. It is no volume until they have gone.
func TestFileSystemThatWasShutDownIsNotUsed(t *testing.T) {
	inVirtualTime(t, fake.Config{PublishStaging: true}, func(t *testing.T, v *virtual) {
		at := v.up(workload("w"))["a"].Source
		m := v.on(at)
		letGo := v.host.Hold(m.Dev)
		if err := v.host.ShutDown(m); err != nil {
			t.Fatal(err)
		}
		v.down("w")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := v.svc.Up(ctx, workload("next")); err == nil || !strings.Contains(err.Error(), "it was shut down") {
			t.Fatalf("up on what was shut down: %v", err)
		}
		letGo()
		stages := v.count("NodeStageVolume")
		v.up(workload("next"))
		if v.count("NodeStageVolume") == stages {
			t.Error("it was not staged anew")
		}
		v.down("next")
		v.clean()
	})
}
