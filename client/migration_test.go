package client_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// migrating makes the allocation one with a disk that follows another one to any node.
func migrating(id, previous string, index uint64) api.Allocation {
	a := sticky(id, previous, index)
	a.Job.TaskGroups[0].EphemeralDisk = &api.EphemeralDisk{SizeMB: 10, Migrate: true}
	return a
}

// twoNodes are a node with the allocation a1, which runs and has data, and one where it will be replaced. The servers pass
// calls on; before may refuse one.
func twoNodes(t *testing.T, before func(*api.DiskDataRequest) error) (from, to *bench) {
	t.Helper()
	from, to = setup(t), setup(t)
	from.start(t)
	to.data = func(_ context.Context, r *api.DiskDataRequest) (*api.DiskDataResponse, error) {
		if err := before(r); err != nil {
			return nil, err
		}
		return call(t, from.servers, wire.ClientAllocDiskData, r)
	}
	from.place(migrating("a1", "", 1))
	from.until(t, "a1 runs", func() bool { return from.status("a1") == api.AllocClientStatusRunning })
	from.put(t, "shared", "a1", "alloc", "data", "s")
	from.put(t, strings.Repeat("x", 6<<20), "a1", "t", "local", "large")
	return from, to
}

func (b *bench) ran(t *testing.T, id, event string) {
	t.Helper()
	b.until(t, id+" runs", func() bool { return b.status(id) == api.AllocClientStatusRunning })
	b.until(t, "event "+event, func() bool {
		for _, e := range b.allocs[id].TaskStates["t"].Events {
			if e.Type == "Ephemeral Disk" && strings.Contains(e.DisplayMessage, event) {
				return true
			}
		}
		return false
	})
	if left, _ := filepath.Glob(b.file(id, ".made-*")); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestMigratingDataFollowsToAnotherNode(t *testing.T) {
	var early atomic.Bool
	asked := make(chan struct{}, 1)
	var from, to *bench
	from, to = twoNodes(t, func(*api.DiskDataRequest) error {
		select {
		case asked <- struct{}{}:
		default:
		}
		return nil
	})
	to.start(t)
	to.place(migrating("a2", "a1", 2))
	<-asked
	to.mu.Lock()
	early.Store(to.status("a2") == api.AllocClientStatusRunning)
	to.mu.Unlock()
	from.place(stopped(migrating("a1", "", 1)))
	to.ran(t, "a2", "is copied from its node: 4 entries, 6.0 MB in ")
	if early.Load() {
		t.Error("a2 runs while a1 does")
	}
	to.has(t, "shared", "a2", "alloc", "data", "s")
	to.has(t, strings.Repeat("x", 6<<20), "a2", "t", "local", "large")

	// The files stay while the other node may not have all of them, also when a user removes them.
	from.has(t, "shared", "a1", "alloc", "data", "s")
	if _, err := call(t, from.servers, wire.ClientAllocGC, &api.AllocRequest{AllocID: "a1"}); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "another node") {
		t.Errorf("collect a1: %v", err)
	}
	if err := from.node.CollectAll(t.Context()); err != nil {
		t.Error(err)
	}
	from.has(t, "shared", "a1", "alloc", "data", "s")

	to.stop() // a restart copies nothing again
	to.put(t, "more", "a2", "t", "local", "m")
	to.data = nil
	to.start(t)
	to.until(t, "a2 runs", func() bool { return to.status("a2") == api.AllocClientStatusRunning })
	to.has(t, "more", "a2", "t", "local", "m")

	// Its own data is all that the next allocation gets, also after another restart.
	to.place(stopped(migrating("a2", "a1", 2)))
	to.until(t, "a2 ends", func() bool { return to.status("a2") == api.AllocClientStatusComplete })
	to.stop()
	to.start(t)
	var page *api.DiskDataResponse
	eventually(t, "a2 is known again", func() (ok bool) {
		var err error
		page, err = call(t, to.servers, wire.ClientAllocDiskData, &api.DiskDataRequest{AllocID: "a3", From: "a2"})
		return err == nil
	})
	if !page.End || page.Earlier != "" || len(page.Entries) != 2 {
		t.Errorf("end %v with %d entries, more of allocation %q", page.End, len(page.Entries), page.Earlier)
	}
}

func TestMigrationThatCannotBeFinishedLeavesAnEmptyDisk(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		event string
		size  int
	}{
		"the node is lost":         {fault.New(fault.NotFound, "node n1 is down"), "allocation a1 cannot be copied from its node: node n1 is down: the disk starts empty", 10},
		"the files are not sent":   {fault.New(fault.Denied, "not yours"), "not yours: the disk starts empty", 10},
		"the disk is too small":    {nil, "the data exceeds the 5 MB of the ephemeral disk: the disk starts empty", 5},
		"an older server or agent": {fault.New(fault.Unimplemented, "unknown method"), "unknown method: the disk starts empty", 10},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := twoNodes(t, func(r *api.DiskDataRequest) error {
				if len(r.Cursor.Path) > 0 {
					return c.err
				}
				return nil
			})
			from.place(stopped(migrating("a1", "", 1)))
			to.start(t)
			next := migrating("a2", "a1", 2)
			next.Job.TaskGroups[0].EphemeralDisk.SizeMB = c.size
			to.place(next)
			to.ran(t, "a2", c.event)
			for _, dir := range []string{"a2/alloc/data", "a2/t/local"} {
				if files, err := os.ReadDir(to.file(dir)); err != nil || len(files) > 0 {
					t.Errorf("%s has %v, %v", dir, files, err)
				}
			}
		})
	}
}

// A copy that fills the disk fails its allocation, whose event names the reason. The node stays healthy, nothing of the copy
// stays, and the next replacement gets all data from where it still is.
func TestMigrationOntoAFullDisk(t *testing.T) {
	from, to := twoNodes(t, func(*api.DiskDataRequest) error { return nil })
	from.place(stopped(migrating("a1", "", 1)))
	to.conf.DiskInterval = 50 * time.Millisecond
	tmpfs(t, to.conf.AllocDir, "size=14m")
	to.begin(t)
	next := migrating("a2", "a1", 2)
	to.place(next)
	to.until(t, "a2 fails", func() bool { return to.status("a2") == api.AllocClientStatusFailed })
	to.until(t, "the event has the reason", func() bool {
		for _, e := range to.allocs["a2"].TaskStates["t"].Events {
			if strings.Contains(e.DisplayMessage, "copy the data of allocation a1: the disk of the node is full after ") {
				t.Log(e.Type, e.DisplayMessage)
				return true
			}
		}
		return false
	})
	eventually(t, "nothing of the copy is left", func() bool {
		left, _ := filepath.Glob(to.file("a2", ".made-*"))
		return len(left) == 0
	})
	for _, dir := range []string{"a2/alloc/data", "a2/t/local"} {
		if files, err := os.ReadDir(to.file(dir)); err == nil && len(files) > 0 {
			t.Errorf("%s has %v", dir, files)
		}
	}
	to.edit(func() {
		if to.told("") || !shows(to.nodes[to.node.ID()], true, "") || to.status("stays") != api.AllocClientStatusRunning {
			t.Errorf("the node reports trouble: %+v", to.events)
		}
	})
	from.has(t, "shared", "a1", "alloc", "data", "s")
	from.has(t, strings.Repeat("x", 6<<20), "a1", "t", "local", "large")

	if err := unix.Mount("", to.conf.AllocDir, "", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	to.place(stopped(next))
	to.place(migrating("a3", "a2", 3))
	to.ran(t, "a3", "is copied from its node: 4 entries, 6.0 MB in ")
	to.has(t, "shared", "a3", "alloc", "data", "s")
	to.has(t, strings.Repeat("x", 6<<20), "a3", "t", "local", "large")
}

// What a copy has so far does not stay when its allocation is stopped.
func TestStoppedMigrationLeavesNothing(t *testing.T) {
	second := make(chan struct{}, 16)
	from, to := twoNodes(t, func(r *api.DiskDataRequest) error {
		if len(r.Cursor.Path) > 0 {
			second <- struct{}{}
			return fault.New(fault.Timeout, "node n1 is not connected")
		}
		return nil
	})
	from.place(stopped(migrating("a1", "", 1)))
	to.start(t)
	to.place(migrating("a2", "a1", 2))
	<-second
	if copied, _ := filepath.Glob(to.file("a2", ".made-*")); len(copied) == 0 {
		t.Error("no data before the stop: the test shows nothing")
	}
	to.place(stopped(migrating("a2", "a1", 2)))
	to.until(t, "a2 ends", func() bool { return to.status("a2") == api.AllocClientStatusComplete })
	eventually(t, "nothing of the copy is left", func() bool {
		left, _ := filepath.Glob(to.file("a2", ".made-*"))
		return len(left) == 0
	})
	from.has(t, "shared", "a1", "alloc", "data", "s")
}

func TestMigrationSurvivesTheAgents(t *testing.T) {
	second := make(chan struct{}, 16)
	var hold atomic.Bool
	hold.Store(true)
	from, to := twoNodes(t, func(r *api.DiskDataRequest) error {
		if len(r.Cursor.Path) > 0 && hold.Load() {
			second <- struct{}{}
			return fault.New(fault.Timeout, "node n1 is not connected")
		}
		return nil
	})
	from.place(stopped(migrating("a1", "", 1)))
	to.start(t)
	to.place(migrating("a2", "a1", 2))
	<-second
	<-second // it asks again
	to.stop()
	to.start(t)
	<-second
	from.stop()
	from.start(t) // knows what it has
	eventually(t, "a1 is known again", func() bool {
		_, err := call(t, from.servers, wire.ClientAllocFileList, &api.AllocFileRequest{AllocID: "a1", Path: "/"})
		return err == nil
	})
	hold.Store(false)
	to.ran(t, "a2", "is copied from its node")
	to.has(t, "shared", "a2", "alloc", "data", "s")
	to.has(t, strings.Repeat("x", 6<<20), "a2", "t", "local", "large")
}

// What an agent process had copied and not put in its place is not asked for again.
func TestCopiedDataIsTakenAfterARestart(t *testing.T) {
	to := setup(t)
	to.data = func(context.Context, *api.DiskDataRequest) (*api.DiskDataResponse, error) {
		return nil, fault.New(fault.Internal, "asked again")
	}
	for _, dir := range []string{"a2/.made-complete/alloc/data", "a2/.made-incoming/alloc/data"} {
		if err := os.MkdirAll(to.file(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	to.put(t, "shared", "a2", ".made-complete", "alloc", "data", "s")
	to.put(t, "part", "a2", ".made-incoming", "alloc", "data", "p")
	to.start(t)
	to.place(migrating("a2", "a1", 2))
	to.until(t, "a2 runs", func() bool { return to.status("a2") == api.AllocClientStatusRunning })
	to.has(t, "shared", "a2", "alloc", "data", "s")
	if left, _ := filepath.Glob(to.file("a2", ".made-*")); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestAMigrationThatWaitsEndsWithItsAllocation(t *testing.T) {
	asked := make(chan struct{}, 16)
	_, to := twoNodes(t, func(*api.DiskDataRequest) error {
		select {
		case asked <- struct{}{}:
		default:
		}
		return nil
	})
	to.start(t)
	to.place(migrating("a2", "a1", 2))
	<-asked
	began := time.Now()
	to.place(stopped(migrating("a2", "a1", 2)))
	to.until(t, "a2 ends", func() bool { return to.status("a2") == api.AllocClientStatusComplete })
	t.Logf("ended after %v", time.Since(began))
}
