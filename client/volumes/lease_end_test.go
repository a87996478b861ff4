package volumes_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// A mount that is made by a call which was under way when the lease ended is cut off too.
func TestMountThatComesAfterTheEndOfItsLeaseIsCutOff(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.leasedVolume()
		v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Delay: leaseTerm})
		done := make(chan error, 1)
		go func() { _, err := v.svc.Up(t.Context(), workload("w")); done <- err }()
		v.until("it is being published", func() bool { return v.count("NodePublishVolume") == 1 })
		for range 100 {
			v.svc.EndLeases(leaseTerm, nobodyKeeps)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if left, _ := v.host.Table(); len(left) > 0 {
			t.Errorf("%s is mounted after the lease", left[0].Point)
		}
		v.svc.EndLeases(0, nobodyKeeps)
		<-done
		_ = v.svc.Down(t.Context(), "w")
		v.untilReleased("w")
		v.clean()
	})
}

// silence starts the agent anew: no server was heard for that long, which gets less with the time.
func (v *virtual) silence(d time.Duration) {
	v.t.Helper()
	v.stop()
	begin := time.Now()
	v.conf.Silence = func() time.Duration { return max(0, d-time.Since(begin)) }
	v.start()
}

// The servers may have given the volume away while this node waited for the plugin: they are asked again.
func TestClaimUnderALeaseIsAskedForAgainWhenItIsOld(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.leasedVolume()
		v.unplug()
		v.plugin()
		v.svc.Plugins().Drop("plug-" + v.kind)
		done := make(chan error, 1)
		go func() { _, err := v.svc.Up(t.Context(), workload("w")); done <- err }()
		time.Sleep(leaseTerm)
		v.servers.onClaim(func(context.Context, *api.VolumeClaimRequest, *api.VolumeClaimResponse) error {
			return fault.New(fault.Conflict, "it was given to another node")
		})
		v.plugIn(v.kind)
		v.supervise()
		if err := <-done; err == nil || v.count("NodePublishVolume") > 0 {
			t.Errorf("mounted on the word of long ago: %v", err)
		}
		_ = v.svc.Down(t.Context(), "w")
	})
}

// Servers that asked for all mounts may have gone back to a state that knows nothing of what they granted.
func TestClaimOfBeforeARegistrationIsAskedForAgain(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		var asked atomic.Int64
		v.servers.onClaim(func(context.Context, *api.VolumeClaimRequest, *api.VolumeClaimResponse) error {
			asked.Add(1)
			return nil
		})
		v.unplug()
		v.plugin()
		v.svc.Plugins().Drop("plug-" + v.kind)
		done := make(chan error, 1)
		go func() { _, err := v.svc.Up(t.Context(), workload("w")); done <- err }()
		time.Sleep(time.Minute)
		if n := len(v.svc.Mounts()); n != 0 || asked.Load() != 1 {
			t.Fatalf("told are %d mounts, and the servers were asked %d times", n, asked.Load())
		}
		v.plugIn(v.kind)
		v.supervise()
		if err := <-done; err != nil || asked.Load() != 2 {
			t.Errorf("the servers were asked %d times: %v", asked.Load(), err)
		}
		v.down("w")
		v.clean()
	})
}

// The node registers just when its mount begins.
func TestClaimIsAskedForAgainWhenTheNodeRegistersBesideIt(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		asked := 0
		v.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
			out.Claim.Lease, out.Claim.WriteBack = leaseTerm, leaseWriteBack
			asked++
			return nil
		})
		v.stop()
		v.conf.Promise = func() error {
			if asked == 1 && v.count("NodeStageVolume") == 0 {
				v.svc.Mounts()
			}
			return nil
		}
		v.start()
		v.up(workload("w"))
		if asked != 2 {
			t.Errorf("the servers were asked %d times", asked)
		}
		v.down("w")
		v.clean()
	})
}

// Nothing is mounted for a lease that is over.
func TestNothingIsMountedWhileNoServerAnswers(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.leasedVolume()
		v.silence(2 * leaseTerm)
		begin := time.Now()
		at := v.up(workload("w"))["a"].Source
		if took := time.Since(begin); took < leaseTerm || v.on(at) == nil {
			t.Errorf("mounted after %s of silence", took)
		}
		v.down("w")
		v.clean()
	})
}

// From when a lease counts must be known after a restart, before the driver is called.
func TestNothingIsMountedUnderALeaseThatIsNotOnRecord(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.leasedVolume()
		v.stop()
		var granted atomic.Bool
		v.conf.Promise = func() error {
			if v.svc.ShortestLease().Term != leaseTerm {
				t.Error("it is asked for before there is a lease")
			}
			if !granted.Load() {
				return fault.New(fault.Unavailable, "the disk is full")
			}
			return nil
		}
		v.start()
		end := v.waits(workload("w"), "the disk is full")
		if n := v.count("NodeStageVolume"); n > 0 {
			t.Errorf("staged %d times", n)
		}
		granted.Store(true)
		if err := end(); err != nil {
			t.Error(err)
		}
		v.down("w")
		v.clean()
	})
}

// The mount stays in the table until its data is written back, so that the end of a lease can cut it off: an unmount
// that writes back cannot be ended.
func TestVolumeIsWrittenBackBeforeItIsUnmounted(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.leasedVolume()
		at := v.ownedBy("w")
		goOn := v.host.HangSync(at)
		done := make(chan error, 1)
		go func() { done <- v.svc.Down(t.Context(), "w") }()
		time.Sleep(5 * time.Minute)
		if v.on(at) == nil || v.count("NodeUnpublishVolume") > 0 {
			t.Error("unmounted before it was written back")
		}
		v.svc.EndLeases(leaseTerm, nobodyKeeps)
		v.until("it is cut off", func() bool { return v.on(at) == nil })
		if _, shut := v.ended(); shut == 0 {
			t.Error("it was not shut down")
		}
		goOn()
		<-done
		v.untilReleased("w")
		v.clean()
	})
}

// What hangs is not waited for.
func TestHungVolumeIsNotWrittenBack(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.ownedBy("w")
		goOn := v.host.HangSync(at)
		defer goOn()
		done := make(chan error, 1)
		go func() { done <- v.svc.Down(t.Context(), "w") }()
		time.Sleep(time.Minute)
		v.host.Hang(at)
		v.untilReleased("w")
		v.host.Wake()
		<-done
		v.clean()
	})
}

// Of a staging whose answer was lost, and that mounts nothing, only the driver can say that it is over.
func TestStagingOfUnknownOutcomeIsOverWhenTheDriverSaysSo(t *testing.T) {
	for _, code := range []codes.Code{codes.Internal, codes.NotFound} {
		t.Run(code.String(), func(t *testing.T) {
			inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
				v.driver.Script(fake.Fault{RPC: "NodeStageVolume", Times: 1, Late: true, Hang: true})
				ctx, die := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); _, _ = v.svc.Up(ctx, workload("w")) }()
				v.until("staging", func() bool { return v.count("NodeStageVolume") == 1 })
				die()
				<-done
				v.stop()
				v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Times: 4, Code: code, Text: "the session is busy"})
				v.start()
				_ = v.svc.Down(t.Context(), "w")
				v.untilReleased("w")
				if n := v.count("NodeUnstageVolume"); n != 5 {
					t.Errorf("%d unstages", n)
				}
				v.clean()
			})
		})
	}
}

// A file system that hangs cannot be opened: it is aborted and detached all the same.
func TestHungFileSystemIsCutOff(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.leasedVolume()
		v.up(workload("w"))
		v.ownFileSystem("w")
		for _, p := range v.svc.Lease("w").Unmount {
			v.host.Hang(p)
		}
		v.svc.EndLeases(leaseTerm, nobodyKeeps)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if left, _ := v.host.Table(); len(left) > 0 {
			t.Errorf("%s is mounted after the lease", left[0].Point)
		}
		v.host.Wake()
		v.down("w")
	})
}

// An unmount of the node's own that the kernel has not ended may still write: it is not over, though the mount table
// shows nothing any more.
func TestUnmountThatTheKernelHasNotEndedIsNotOver(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.up(workload("w"))["a"].Source
		v.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Code: codes.Internal, Text: "broken driver"},
			fake.Fault{RPC: "NodeUnstageVolume", Code: codes.Internal, Text: "broken driver"})
		goOn := v.host.HangUnmount(at)
		_ = v.svc.Down(t.Context(), "w")
		v.until("the node unmounts it", func() bool { return v.on(at) == nil })
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if v.released("w") {
			t.Error("released while the kernel writes back")
		}
		goOn()
		v.untilReleased("w")
	})
}

// Mounts end with the boot: no plugin is needed to say so.
func TestMountsOfAnEarlierBootNeedNoPlugin(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.up(workload("w"))
		v.stop()
		v.host.Reboot()
		v.start()
		v.knows(workload("w"))
		v.unplug()
		v.plugin()
		v.svc.Plugins().Drop("plug-" + v.kind)
		if err := v.svc.Down(t.Context(), "w"); err != nil {
			t.Errorf("Down: %v", err)
		}
		if rows, _ := v.journal.All(); len(rows) > 0 {
			t.Errorf("the journal has %d records still", len(rows))
		}
		v.plugIn(v.kind)
	})
}

// A staging whose rows were lost is not asked for for ever: what the plugin cannot unstage the node unmounts.
func TestStagingThatNobodyUsesIsGivenUpToo(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.up(workload("w"))["a"].Source
		v.stop()
		v.journal.lose("row/")
		if err := v.host.Unmount(at); err != nil {
			t.Fatal(err)
		}
		v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Code: codes.Internal, Text: "broken driver"})
		v.start()
		v.knows()
		v.until("nothing is left", func() bool {
			left, _ := v.host.Table()
			rows, _ := v.journal.All()
			return len(left)+len(rows) == 0
		})
	})
}

// A clock that is set back makes nobody wait for it to come forward again.
func TestPatienceOutlivesAClockThatIsSetBack(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.up(workload("over"))
		v.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Code: codes.Internal, Text: "broken driver"},
			fake.Fault{RPC: "NodeUnstageVolume", Code: codes.Internal, Text: "broken driver"})
		_ = v.svc.Down(t.Context(), "over")
		v.stop()
		v.journal.edit("row/", func(m map[string]any) {
			m["FailingSince"] = time.Now().Add(100 * time.Hour).Format(time.RFC3339Nano)
		})
		v.start()
		v.knows(workload("over"))
		begin := time.Now()
		v.untilReleased("over")
		if took := time.Since(begin); took > 10*time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

// ownedBy mounts a file system of the volume's own for allocations, as a driver of devices does, and returns where the
// first one has it.
func (v *virtual) ownedBy(id string, others ...string) string {
	v.t.Helper()
	if err := v.host.MakeDir("/data/v"); err != nil {
		v.t.Fatal(err)
	}
	if err := v.host.Mount("7:1", "ext4", "/data/v", mounts.Flags{}); err != nil {
		v.t.Fatal(err)
	}
	at := v.up(workload(id))["a"].Source
	for _, other := range others {
		v.up(workload(other))
	}
	if err := v.host.Unmount("/data/v"); err != nil { // the driver needs it no more
		v.t.Fatal(err)
	}
	return at
}

// To abort a file system ends it for all who have it mounted.
func TestHungFileSystemOfOthersIsNotAborted(t *testing.T) {
	for name, others := range map[string]bool{"alone": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				at := v.ownedBy("w")
				if others {
					if err := v.host.MakeDir("/others"); err != nil {
						t.Fatal(err)
					}
					if err := v.host.Bind(at, "/others", mounts.Flags{}); err != nil {
						t.Fatal(err)
					}
				}
				v.host.Hang(at)
				v.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Code: codes.Internal, Text: "broken driver"},
					fake.Fault{RPC: "NodeUnstageVolume", Code: codes.Internal, Text: "broken driver"})
				_ = v.svc.Down(t.Context(), "w")
				v.untilReleased("w")
				if aborted := len(v.host.Aborted()) > 0; aborted == others {
					t.Errorf("aborted: %v", aborted)
				}
				v.host.Wake()
			})
		})
	}
}

// The process that serves a file system may hold back what it was given: it ends with the lease.
func TestProcessThatServedAVolumeEndsWithTheLease(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.leasedVolume()
		v.up(workload("w"))
		v.stop()
		scope := filepath.Join(t.TempDir(), frame.HelperName("1", "abcdefgh"))
		if err := os.Mkdir(scope, 0o700); err != nil {
			t.Fatal(err)
		}
		kill := filepath.Join(scope, "cgroup.kill")
		if err := os.WriteFile(kill, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		v.journal.edit("row/", func(m map[string]any) { m["Helpers"] = []string{scope} })
		v.start()
		v.knows(workload("w"))
		v.svc.EndLeases(leaseTerm, nobodyKeeps)
		synctest.Wait()
		if said, err := os.ReadFile(kill); string(said) != "1" {
			t.Errorf("it was told %q: %v", said, err)
		}
		v.down("w")
		time.Sleep(time.Minute) // its scope is looked at for some time
	})
}

// What the kernel has not unmounted yet is not mounted again: the end of the unmount would take the new mount.
func TestNothingIsStagedWhereTheKernelUnmounts(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.up(workload("w"))
		at := v.driver.Calls("NodeStageVolume")[0].Path
		v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Code: codes.Internal, Text: "broken driver"})
		goOn := v.host.HangUnmount(at)
		_ = v.svc.Down(t.Context(), "w")
		v.until("the node unmounts it", func() bool { return v.on(at) == nil })
		staged := v.count("NodeStageVolume")
		end := v.waits(workload("new"), "the kernel has not ended the unmount of the staging")
		if n := v.count("NodeStageVolume"); n > staged {
			t.Errorf("staged %d times over an unmount that goes on", n-staged)
		}
		v.driver.Heal()
		goOn()
		if err := end(); err != nil {
			t.Error(err)
		}
		v.untilReleased("w")
		v.down("new")
	})
}

// The same holds for the target of a mount that has failed, and that the plugin does not take away.
func TestNothingIsPublishedWhereTheKernelUnmounts(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.servers.onClaim(withPolicy(api.MountDeadRepublish))
		at := v.up(workload("w"))["a"].Source
		v.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Code: codes.Internal, Text: "broken driver"})
		goOn := v.host.HangUnmount(at)
		v.host.Kill(at)
		v.until("the node unmounts it", func() bool { return v.on(at) == nil })
		time.Sleep(5 * time.Minute)
		if n := v.count("NodePublishVolume"); n > 1 || v.on(at) != nil {
			t.Errorf("published %d times over an unmount that goes on", n-1)
		}
		v.driver.Heal()
		goOn()
		v.until("it is mounted again", func() bool { return v.on(at) != nil })
		v.down("w")
	})
}
