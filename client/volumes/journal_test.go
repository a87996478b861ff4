package volumes_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// spoil makes the records unreadable whose keys begin so.
func (b *bucket) spoil(prefix string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.m {
		if strings.HasPrefix(k, prefix) {
			b.m[k] = []byte("{")
		}
	}
}

// edit changes the records whose keys begin so.
func (b *bucket) edit(prefix string, change func(map[string]any)) {
	for k := range b.keys(prefix) {
		raw, _ := b.Get(k)
		m := map[string]any{}
		if json.Unmarshal(raw, &m) == nil {
			change(m)
			raw, _ = json.Marshal(m)
			_ = b.Put(k, raw)
		}
	}
}

// knows says which allocations the node knows after a restart; those whose id begins with "over" have ended.
func (v *virtual) knows(all ...*api.Allocation) {
	known := map[string]volumes.Known{}
	for _, a := range append(all, pluginOf("plug-"+v.kind)) {
		known[a.ID] = volumes.Known{Alloc: a, Ended: strings.HasPrefix(a.ID, "over")}
	}
	v.svc.Restored(known)
}

// told says that the servers have no other allocations on the node than it knows.
func (v *virtual) told() { v.svc.Listed(nil) }

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

// asked serves a detach with what the servers know of a mount that they were told of.
func (v *virtual) asked(m *api.StaleMount) error {
	v.t.Helper()
	_, err := serve(v.t, v.svc, v.t.Context(), wire.NodeVolumeDetach, &api.NodeVolumeDetachRequest{
		Namespace: m.Namespace, VolumeID: m.VolumeID, PluginID: m.PluginID, ExternalID: m.ExternalID, AllocID: m.AllocID, Use: m.Use,
	})
	return err
}

// Servers may not know either what the driver calls the volume of a record that cannot be read: it may be registered
// no more.
func TestUnreadableRecordIsUnmountedWithoutTheExternalID(t *testing.T) {
	for which, driver := range map[string]bool{"row/": true, "": false} {
		inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
			over := workload("over")
			at := v.up(over)["a"].Source
			v.stop()
			v.journal.spoil(which)
			v.start()
			v.knows(over)
			told := v.svc.Mounts()
			if len(told) != 1 {
				t.Fatalf("the servers are told of %+v", told)
			}
			if err := v.asked(told[0]); err != nil || v.on(at) != nil {
				t.Errorf("records %q: it is mounted still: %v", which, err)
			}
			if n := len(v.svc.Mounts()); n != 0 {
				t.Errorf("records %q: the servers would be told of %d mounts", which, n)
			}
			if driver {
				v.until("it is unstaged", func() bool { return v.count("NodeUnstageVolume") == 1 })
				v.clean()
			}
		})
	}
}

// Nobody on the node knows whose mount a record of a forgotten allocation was: what no known one explains goes.
func TestUnreadableRecordOfAForgottenAllocationIsUnmounted(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		gone, known, damaged := v.up(workload("gone"))["a"].Source, v.up(workload("w"))["a"].Source, v.up(workload("w2"))["a"].Source
		v.stop()
		v.journal.spoil("row/gone")
		v.journal.spoil("row/w2")
		v.start()
		v.knows(workload("w"), workload("w2"))
		v.told()
		told := v.svc.Mounts()
		i := slices.IndexFunc(told, func(m *api.StaleMount) bool { return m.AllocID == "gone" })
		if i < 0 || told[i].VolumeID != "" {
			t.Fatalf("the servers are told of %+v", told)
		}
		if err := v.asked(told[i]); err != nil || v.on(gone) != nil {
			t.Errorf("it is mounted still: %v", err)
		}
		if v.on(known) == nil || v.on(damaged) == nil {
			t.Error("an allocation that is known has lost its mount")
		}
		if n := len(v.svc.Mounts()); n != 2 {
			t.Errorf("the servers would be told of %d mounts", n)
		}
	})
}

func TestUnreadableRecordOfNothingIsReleased(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		over := workload("over")
		v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Code: codes.InvalidArgument})
		if _, err := v.svc.Up(t.Context(), over); err == nil {
			t.Fatal("published")
		}
		v.stop()
		v.journal.spoil("row/")
		v.start()
		v.knows(over)
		v.down("over")
		if !v.released("over") {
			t.Error("the servers were not told")
		}
		v.until("the staging that nobody uses is unstaged", func() bool { return v.count("NodeUnstageVolume") == 1 })
		v.until("nothing is left", func() bool { rows, _ := v.journal.All(); return len(rows) == 0 })
	})
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

// A running task keeps its mount although the record of it is lost.
func TestUnreadableRecordOfARunningAllocationIsMadeAnew(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.up(workload("w"))["a"]
		v.stop()
		v.journal.spoil("")
		v.start()
		v.knows(workload("w"))
		calls := len(v.driver.Calls("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume"))
		if again := v.up(workload("w"))["a"]; again != at {
			t.Errorf("the mount is %+v, was %+v", again, at)
		}
		if n := len(v.driver.Calls("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume")) - calls; n != 0 {
			t.Errorf("%d calls for a mount that is there", n)
		}
		v.down("w")
		v.clean()
	})
}

// An allocation that the node knows and whose tasks may run is never unmounted, whoever asks.
func TestDetachSparesAllocationsWhoseTasksMayRun(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.up(workload("w"))["a"].Source
		over := workload("over")
		v.up(over)
		refused := func(when string) {
			t.Helper()
			if err := v.detach(&api.NodeVolumeDetachRequest{AllocID: "w"}); !errors.Is(err, fault.Conflict) || v.on(at) == nil {
				t.Errorf("%s: %v", when, err)
			}
		}
		refused("running")
		v.stop()
		v.start()
		refused("before the node has said what it knows")
		v.knows(workload("w"), over)
		refused("after a restart of the agent, before Up")
		if err := v.detach(&api.NodeVolumeDetachRequest{AllocID: "over"}); err != nil {
			t.Errorf("an allocation whose tasks have ended: %v", err)
		}
		v.down("w")
		v.clean()
	})
}

// A plugin that comes back as another type has another base: the volume stays where it is staged.
func TestPluginOfAnotherTypeUsesTheStagingPath(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.up(workload("w1"))
		v.plugin()
		v.svc.Plugins().Drop("plug-" + v.kind)
		v.kind = api.CSIPluginTypeNode
		v.supervise()
		v.up(workload("w2"))
		if n := v.count("NodeStageVolume"); n != 1 {
			t.Errorf("staged %d times", n)
		}
		v.down("w1")
		v.down("w2")
		v.clean()
	})
}

// A crash between stage and publish, and a plugin of another type after it: the paths of before are used.
func TestPluginOfAnotherTypeEndsAnUnfinishedMount(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Late: true, Hang: true})
		ctx, die := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _, _ = v.svc.Up(ctx, workload("w")) }()
		v.until("publishing", func() bool { return v.count("NodePublishVolume") == 1 })
		die()
		<-done
		v.plugin()
		v.svc.Plugins().Drop("plug-" + v.kind)
		v.kind = api.CSIPluginTypeNode
		v.supervise()
		v.up(workload("w"))
		v.down("w")
		v.clean()
	})
}

// The record of the staging is lost and the plugin has another base: those who have the volume know where it is staged.
func TestPluginOfAnotherTypeFindsAStagingWhoseRecordCannotBeRead(t *testing.T) {
	for kind, c := range map[string]fake.Config{"mount": {}, "session": {NoMountAtStaging: true}} {
		for _, next := range []string{"w1", "w2"} {
			t.Run(kind+" for "+next, func(t *testing.T) {
				inVirtualTime(t, c, func(t *testing.T, v *virtual) {
					if next == "w1" { // staged, and not published
						v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Code: codes.InvalidArgument})
					}
					if _, err := v.svc.Up(t.Context(), workload("w1")); (err == nil) == (next == "w1") {
						t.Fatal(err)
					}
					v.stop()
					v.journal.spoil("stage/")
					v.kind = api.CSIPluginTypeNode
					v.start()
					v.knows(workload("w1"))
					v.up(workload(next))
					v.down("w1")
					v.down("w2")
					v.clean()
				})
			})
		}
	}
}

// Without any record the mount table tells where it is staged.
func TestPluginOfAnotherTypeFindsAStagingWithoutRecords(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Code: codes.InvalidArgument})
		if _, err := v.svc.Up(t.Context(), workload("w1")); err == nil {
			t.Fatal("published")
		}
		v.stop()
		v.journal.spoil("")
		v.kind = api.CSIPluginTypeNode
		v.start()
		v.knows(workload("w1"))
		v.up(workload("w2"))
		v.down("w1")
		v.down("w2")
		v.clean()
	})
}

// failing is a bucket on a disk that takes no writes.
type failing struct {
	*bucket
	down atomic.Bool
	// left is after which write the disk is full; 0 means never.
	left atomic.Int64
	// hung keeps those who remove records; began counts them.
	hung  chan struct{}
	began atomic.Int64
}

var errReadOnly = errors.New("read-only file system")

func (f *failing) Put(k string, v []byte) error {
	if f.left.Load() > 0 && f.left.Add(-1) == 0 {
		f.down.Store(true)
	}
	if f.down.Load() {
		return errReadOnly
	}
	return f.bucket.Put(k, v)
}

func (f *failing) Delete(k string) error {
	f.began.Add(1)
	if !f.down.Load() && f.hung != nil {
		<-f.hung
	}
	if f.down.Load() {
		return errReadOnly
	}
	return f.bucket.Delete(k)
}

func TestVolumesAreTakenDownWithoutADisk(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.stop()
		disk := &failing{bucket: v.journal}
		v.conf.Journal = disk
		v.start()
		v.up(workload("w"))
		disk.down.Store(true)
		v.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Times: 1, Code: codes.Internal, Text: "once"})
		_ = v.svc.Down(t.Context(), "w")
		v.untilReleased("w")
		time.Sleep(time.Minute)
		disk.down.Store(false)
		v.until("the records are gone", func() bool { rows, _ := v.journal.All(); return len(rows) == 0 })
		v.clean()
	})
}

// A full disk is no reason to fail an allocation: what is new waits, and people hear why.
func TestMountsWaitForTheDisk(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.stop()
		disk := &failing{bucket: v.journal}
		v.conf.Journal = disk
		v.start()
		disk.down.Store(true)
		end := v.waits(workload("w"), "the disk is full")
		if calls := v.driver.Calls("NodeStageVolume", "NodePublishVolume"); len(calls) > 0 {
			t.Errorf("without a record the driver was called: %v", calls)
		}
		if v.users.count("Waiting w") == 0 {
			t.Error("the tasks do not hear why they wait")
		}
		disk.down.Store(false)
		if err := end(); err != nil {
			t.Error(err)
		}
		v.down("w")
		v.clean()
	})
}

// The disk may be full between two records of one mount.
func TestMountGoesOnWhenTheDiskIsFullHalfway(t *testing.T) {
	for writes := range 6 {
		t.Run(strconv.Itoa(writes), func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				v.stop()
				disk := &failing{bucket: v.journal}
				disk.left.Store(int64(writes) + 1)
				v.conf.Journal = disk
				v.start()
				end := make(chan error, 1)
				go func() { _, err := v.svc.Up(t.Context(), workload("w")); end <- err }()
				time.Sleep(5 * time.Minute)
				disk.left.Store(0)
				disk.down.Store(false)
				if err := <-end; err != nil {
					t.Error(err)
				}
				v.down("w")
				v.clean()
			})
		})
	}
}

// A try whose answer was lost may have published: what it staged is not unstaged under that mount.
func TestNothingIsUnstagedUnderTheMountOfAnEarlierTry(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Code: codes.InvalidArgument, Late: true})
		if _, err := v.svc.Up(t.Context(), workload("w")); err == nil {
			t.Fatal("published")
		}
		v.stop()
		v.journal.spoil("stage/")
		v.start()
		v.knows(workload("w"))
		if got := v.up(workload("w"))["a"].Source; v.on(got) == nil {
			t.Error("it is not mounted")
		}
		v.down("w")
		v.clean()
	})
}
