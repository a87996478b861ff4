package volumes_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
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

// A disk that hangs under one record keeps nobody from looking at the others: leases are kept by them.
func TestHungDiskKeepsNobodyFromLookingAtTheJournal(t *testing.T) {
	disk := &failing{hung: make(chan struct{})}
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) {
		disk.bucket = c.Journal.(*bucket)
		c.Journal = disk
	})
	r.plugIn("plug")
	r.up(workload("w"))
	disk.down.Store(true)
	r.down("w")
	before := disk.began.Load()
	disk.down.Store(false)
	defer close(disk.hung)
	for hang := time.After(30 * time.Second); disk.began.Load() == before; {
		select {
		case <-time.After(time.Millisecond):
		case <-hang:
			t.Fatal("the record that is owed is never removed")
		}
	}
	looked := make(chan struct{})
	go func() { r.svc.ShortestLease(); close(looked) }()
	select {
	case <-looked:
	case <-time.After(30 * time.Second):
		t.Error("nobody can look at the journal")
	}
}
