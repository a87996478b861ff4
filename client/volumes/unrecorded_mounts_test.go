package volumes_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

func TestUnreadableRecordIsTakenForAMount(t *testing.T) {
	for _, which := range []string{"row/", ""} {
		t.Run("records "+which, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				over := workload("over")
				at := v.up(over)["a"].Source
				v.stop()
				v.journal.spoil(which)
				v.start()
				v.knows(over)
				if err := v.svc.Down(t.Context(), "over"); err == nil || v.on(at) == nil {
					t.Errorf("Down of an unreadable record returns %v", err)
				}
				if v.released("over") {
					t.Error("the servers were told that it is released")
				}
				told := v.svc.Mounts()
				if len(told) != 1 || told[0].VolumeID != "v" || told[0].AllocID != "over" || told[0].PluginID != "p" {
					t.Errorf("the servers are told of %+v", told)
				}
				v.settled()
				if err := v.detach(&api.NodeVolumeDetachRequest{AllocID: "over"}); err != nil {
					t.Errorf("a detach with what the servers know: %v", err)
				}
				v.clean()
				if err := v.svc.Down(t.Context(), "over"); err != nil {
					t.Errorf("Down when all is gone: %v", err)
				}
			})
		})
	}
}

// A driver may stage without mounting anything: a record of a staging that cannot be read is undone all the same.
func TestUnreadableRecordOfAStagingIsUnstaged(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		over := workload("over")
		v.up(over)
		v.stop()
		v.journal.spoil("stage/")
		if err := v.host.Unmount(v.driver.Calls("NodeStageVolume")[0].Path); err != nil {
			t.Fatal(err)
		}
		v.start()
		v.knows(over)
		v.down("over")
		v.clean()
	})
}

// settled says that the servers have no other allocations on the node than it knows, and that no other tasks run.
func (v *virtual) settled() {
	v.told()
	v.svc.Settled()
}

// asDevice makes v a block volume whose targets are device nodes.
func (v *virtual) asDevice() {
	v.driver.Change(func(c *fake.Config) { c.MakeNode = func(target string) { v.host.SetDevice(target, true) } })
	v.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
		out.Claim.AttachmentMode = api.AttachmentBlock
		return nil
	})
}

// lateMount begins a publication that the driver ends after a time, and gives it up; it returns the target.
func (v *virtual) lateMount(id string, after time.Duration) string {
	v.t.Helper()
	v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Delay: after})
	ctx, stop := context.WithCancel(v.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = v.svc.Up(ctx, workload(id)) }()
	v.until("it is being mounted", func() bool { return v.count("NodePublishVolume") == 1 })
	stop()
	<-ended
	_ = v.svc.Down(v.t.Context(), id)
	v.untilReleased(id)
	return v.driver.Calls("NodePublishVolume")[0].Path
}

// nothing reports whether nothing is mounted on the node.
func (v *virtual) nothing() bool {
	table, _ := v.host.Table()
	return len(table) == 0
}

// A journal that is lost together with the node's allocations leaves mounts that nothing explains. The node takes them
// away itself when nobody can have them, and tells.
func TestMountsThatNoAllocationExplainsAreTakenAway(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.up(workload("gone"))["a"].Source
		kept := v.up(workload("w"))["a"].Source
		v.stop()
		v.journal.lose("")
		v.start()
		v.svc.Settled()
		time.Sleep(5 * time.Minute)
		if v.on(at) == nil {
			t.Error("unmounted before the servers have said which allocations there are")
		}
		v.knows(workload("w"))
		v.told()
		time.Sleep(5 * time.Minute)
		v.until("what nobody has is gone", func() bool { return v.on(at) == nil })
		if v.on(kept) == nil {
			t.Fatal("a known allocation has lost its mount")
		}
		if !v.event("Unmount volume without a record") {
			t.Error("nobody was told")
		}
		v.up(workload("w"))
		v.driver.Storage().Excuse("fake-node", true) // it keeps a book of what it has published
		v.down("w")
		v.until("all is gone", func() bool { return v.nothing() && v.forgotten() })
	})
}

// The staging of a lost journal goes too, as soon as nothing shows its files.
func TestStagingThatNothingExplainsIsTakenAway(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.driver.Storage().Excuse("fake-node", true)
		v.up(workload("gone"))
		v.stop()
		v.journal.lose("")
		v.start()
		v.knows()
		v.settled()
		v.until("nothing is mounted", v.nothing)
		v.up(workload("w"))
		v.down("w")
		v.until("nothing is mounted", v.nothing)
	})
}

// What a process has stays, and is told.
func TestMountThatAProcessHasStays(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		elsewhere, busy := v.up(workload("elsewhere"))["a"].Source, v.up(workload("busy"))["a"].Source
		v.host.SetElsewhere(elsewhere, 42)
		v.host.SetBusy(busy, true)
		v.stop()
		v.journal.lose("")
		v.start()
		v.knows()
		v.settled()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if v.on(elsewhere) == nil || v.on(busy) == nil {
			t.Error("a mount is gone that a process has")
		}
		n := 0
		for _, e := range v.events {
			if e.Message == "Unmount volume without a record" {
				n++
			}
		}
		if n != 2 {
			t.Errorf("told %d times of two mounts", n)
		}
		v.host.SetElsewhere(elsewhere, 0)
		v.host.SetBusy(busy, false)
		v.until("it is gone", v.nothing)
		v.driver.Storage().Excuse("fake-node", true)
	})
}

// A mount that appears while the agent runs, for nobody, is found too.
func TestForeignMountThatAppearsIsTakenAway(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.knows()
		v.settled()
		path := "/state/csi/monolith/p/t/foreign"
		if err := v.host.MakeDir(path); err != nil {
			t.Fatal(err)
		}
		if err := v.host.Mount("9:9", "ext4", path, mounts.Flags{}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		v.until("it is gone", v.nothing)
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

// Some drivers make a device node at the target of a block volume: no mount table shows it.
func TestDeviceNodeWhoseRecordCannotBeReadIsNotReleased(t *testing.T) {
	for name, spoil := range map[string]func(*bucket){
		"unreadable": func(b *bucket) { b.spoil("row/") },
		"lost":       func(b *bucket) { b.lose("") },
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
				v.asDevice()
				over := workload("over")
				at := v.up(over)["a"].Source
				v.stop()
				spoil(v.journal)
				v.start()
				v.knows(over)
				v.settled()
				if err := v.svc.Down(t.Context(), "over"); err == nil || !v.host.IsDevice(at) || v.released("over") {
					t.Errorf("Down of a device without a record returns %v", err)
				}
				if told := v.svc.Mounts(); len(told) != 1 || told[0].VolumeID != "v" || told[0].PluginID != "p" {
					t.Errorf("the servers are told of %+v", told)
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if n := v.count("NodeUnstageVolume"); n != 0 {
					t.Errorf("unstaged %d times under a device", n)
				}
				if err := v.detach(&api.NodeVolumeDetachRequest{AllocID: "over"}); err != nil {
					t.Error(err)
				}
				if v.host.IsDevice(at) {
					t.Error("the device is there after the detach")
				}
				v.until("all is forgotten", v.forgotten)
			})
		})
	}
}

// A running allocation keeps its device although the record of it is lost, and a lease holds for it.
func TestDeviceNodeWhoseRecordIsLostIsTakenUp(t *testing.T) {
	inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
		v.asDevice()
		w := workload("w")
		at := v.up(w)["a"].Source
		calls := v.count("NodePublishVolume")
		v.stop()
		v.journal.lose("")
		v.start()
		v.svc.Presume(api.LeaseTerm{Term: leaseTerm, WriteBack: leaseWriteBack})
		v.knows(w)
		if l := v.svc.Lease("w"); l == nil || l.Term.Term != leaseTerm {
			t.Errorf("the lease is %+v", l)
		}
		if again := v.up(w)["a"]; again.Source != at || !again.Device || v.count("NodePublishVolume") != calls {
			t.Errorf("taken up as %+v after %d calls", again, v.count("NodePublishVolume")-calls)
		}
		v.down("w")
		v.until("all is forgotten", v.forgotten)
		if v.host.IsDevice(at) {
			t.Error("the device is there still")
		}
	})
}

// What comes late is taken away as soon as it appears.
func TestLateMountIsTakenAwayAtOnce(t *testing.T) {
	inVirtualTime(t, fake.Config{Deaf: true, NoStage: true}, func(t *testing.T, v *virtual) {
		v.driver.Storage().Excuse("fake-node", true)
		v.knows()
		v.settled()
		target := v.lateMount("w", 30*time.Minute)
		var begun atomic.Int64
		go v.host.Watch(t.Context(), func() { begun.Store(time.Now().UnixNano()) })
		v.until("it is mounted", func() bool { return begun.Load() != 0 })
		v.until("it is gone", func() bool { return v.on(target) == nil })
		if took := time.Since(time.Unix(0, begun.Load())); took > 2*time.Second {
			t.Errorf("it was there for %s", took)
		}
	})
}

// The node forgets an allocation whose volumes were taken down by a later try than the first.
func TestAllocationOfALaterUnmountIsForgotten(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		before := v.svc.Known()
		v.up(workload("w"))
		v.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Times: 1, Code: codes.Internal})
		if err := v.svc.Down(t.Context(), "w"); err == nil {
			t.Fatal("the first try succeeds")
		}
		v.untilReleased("w")
		v.until("all is forgotten", v.forgotten)
		if n := v.svc.Known(); n != before {
			t.Errorf("%d allocations are known, %d were", n, before)
		}
		v.clean()
	})
}

// A mount that does not answer just now may be used by a process of this namespace, and may have data that is not written
// back: nobody has asked for the end of its file system.
func TestMountOfNobodyThatDoesNotAnswerIsNotAborted(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := "/state/csi/monolith/p/t/foreign"
		if err := errors.Join(v.host.MakeDir(at), v.host.Mount("7:1", "fuse", at, mounts.Flags{})); err != nil {
			t.Fatal(err)
		}
		v.host.SetBusy(at, true)
		v.host.Hang(at)
		v.knows()
		v.settled()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if aborted := v.host.Aborted(); len(aborted) > 0 || v.on(at) == nil {
			t.Errorf("aborted %v, mounted is %v", aborted, v.on(at))
		}
		if !v.event("Unmount volume without a record") {
			t.Error("nobody was told")
		}
		v.host.Wake()
		v.host.SetBusy(at, false)
		v.until("it is gone", v.nothing)
	})
}

// A driver may end a call long after everybody has given it up, and the volume is released: what it mounts then is
// taken down too.
func TestMountThatComesAfterTheReleaseIsTakenDown(t *testing.T) {
	for name, rpc := range map[string]string{"published": "NodePublishVolume", "staged": "NodeStageVolume"} {
		for _, who := range []string{"the same agent", "another agent"} {
			t.Run(name+" for "+who, func(t *testing.T) {
				inVirtualTime(t, fake.Config{Deaf: true, NoStage: rpc == "NodePublishVolume"}, func(t *testing.T, v *virtual) {
					v.driver.Storage().Excuse("fake-node", true)
					v.driver.Script(fake.Fault{RPC: rpc, Times: 1, Delay: 5 * time.Minute})
					ctx, stop := context.WithCancel(t.Context())
					ended := make(chan struct{})
					go func() { defer close(ended); _, _ = v.svc.Up(ctx, workload("w")) }()
					v.until("it is being mounted", func() bool { return v.count(rpc) == 1 })
					stop()
					<-ended
					if who == "another agent" {
						v.stop()
						v.start()
						v.knows()
					}
					v.settled()
					_ = v.svc.Down(t.Context(), "w")
					v.untilReleased("w")
					if q, ok := v.driver.Calls(rpc)[0].Request.(*pb.NodeStageVolumeRequest); ok { // many drivers make the path
						if err := v.host.MakeDir(q.GetStagingTargetPath()); err != nil {
							t.Fatal(err)
						}
					}
					comes := 0
					for range 20 {
						time.Sleep(30 * time.Second)
						synctest.Wait()
						if table, _ := v.host.Table(); len(table) > 0 {
							comes++
						}
					}
					if comes > 4 {
						t.Errorf("it was mounted for %d times 30 s", comes)
					}
					v.until("nothing is mounted", v.nothing)
				})
			})
		}
	}
}
