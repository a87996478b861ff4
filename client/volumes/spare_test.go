package volumes_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// withSpare gives the node a copy of its journal.
func (v *virtual) withSpare() *bucket {
	v.stop()
	spare := &bucket{}
	v.conf.Spare = spare
	v.start()
	return spare
}

// loseJournal starts the agent again without its journal.
func (v *virtual) loseJournal() {
	v.stop()
	v.journal.lose("")
	v.conf.JournalLost = true
	v.start()
	v.conf.JournalLost = false
}

// A driver's session of an allocation that nobody knows any more is ended by the driver, although the journal is lost: no
// mount table shows it.
func TestSessionOfNobodyIsEndedByItsDriver(t *testing.T) {
	for name, c := range map[string]fake.Config{"session": {NoMountAtStaging: true}, "mount": {}, "without staging": {NoStage: true}} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, c, func(t *testing.T, v *virtual) {
				v.withSpare()
				at, w := v.up(workload("gone"))["a"].Source, workload("w")
				kept := v.up(w)["a"].Source
				calls := v.count("NodePublishVolume")
				v.loseJournal()
				v.svc.Settled()
				v.knows()
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if v.on(at) == nil {
					t.Fatal("unmounted before the servers have said which allocations there are")
				}
				v.svc.Listed([]*api.Allocation{w})
				v.untilReleased("gone")
				if v.on(at) != nil || v.on(kept) == nil {
					t.Fatal("the wrong one was unmounted")
				}
				if again := v.up(w)["a"]; again.Source != kept || v.count("NodePublishVolume") != calls {
					t.Errorf("taken up at %s, not at %s", again.Source, kept)
				}
				v.down("w")
				v.until("all is forgotten", v.forgotten)
				v.clean()
			})
		})
	}
}

// A session whose allocation is gone with its journal, and with its mounts, is ended too.
func TestSessionWithoutMountsIsEndedByItsDriver(t *testing.T) {
	inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
		v.withSpare()
		at := v.up(workload("gone"))["a"].Source
		v.stop()
		if err := v.host.Unmount(at); err != nil {
			t.Fatal(err)
		}
		v.start()
		v.loseJournal()
		v.knows()
		v.settled()
		v.untilReleased("gone")
		v.clean()
	})
}

// A record that cannot be read is taken from its copy.
func TestUnreadableRecordIsTakenFromItsCopy(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.withSpare()
		over, w := workload("over"), workload("w")
		v.up(over)
		at := v.up(w)["a"].Source
		calls := v.count("NodePublishVolume")
		v.stop()
		v.journal.spoil("")
		v.start()
		v.knows(over, w)
		v.down("over")
		if again := v.up(w)["a"]; again.Source != at || v.count("NodePublishVolume") != calls {
			t.Errorf("taken up at %s, not at %s", again.Source, at)
		}
		v.down("w")
		v.clean()
	})
}

// A copy that has what the journal does not know is of an agent of before that kept none: it counts for nothing.
func TestOldCopyOfTheJournalIsNoMount(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		spare := v.withSpare()
		v.up(workload("w"))
		old, _ := spare.All()
		v.down("w")
		if left, _ := spare.All(); len(left) > 0 || len(old) == 0 {
			t.Errorf("%d copies of %d are left", len(left), len(old))
		}
		v.stop()
		for key, raw := range old {
			_ = spare.Put(key, raw)
		}
		calls := v.count("NodeUnpublishVolume")
		v.start()
		v.knows()
		v.settled()
		if told := v.svc.Mounts(); len(told) > 0 {
			t.Errorf("the servers are told of %+v", told[0])
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if left, _ := spare.All(); len(left) > 0 || v.count("NodeUnpublishVolume") != calls {
			t.Errorf("%d copies are left", len(left))
		}
		v.clean()
	})
}

// A copy that cannot be written holds nothing up. What it has of before, when the journal is lost, leads to no unstage under
// the mount of an allocation that it does not have.
func TestCopyOfBeforeEndsNobodysSession(t *testing.T) {
	for name, c := range map[string]fake.Config{"session": {NoMountAtStaging: true}, "mount": {}} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, c, func(t *testing.T, v *virtual) {
				v.stop()
				disk := &failing{bucket: &bucket{}}
				v.conf.Spare = disk
				v.start()
				w := workload("w")
				v.up(workload("over"))
				disk.down.Store(true)
				at := v.up(w)["a"].Source
				v.down("over")
				disk.down.Store(false)
				v.loseJournal()
				v.knows(w)
				v.svc.Listed([]*api.Allocation{w})
				v.svc.Settled()
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if n := v.count("NodeUnstageVolume"); n != 0 || v.on(at) == nil {
					t.Errorf("unstaged %d times under the mount at %s", n, at)
				}
				v.up(w)
				v.down("w")
				v.until("all is forgotten", v.forgotten)
				v.clean()
			})
		})
	}
}

// An agent that took the records of a lost journal from their copy is followed by others before it has written them, or
// before the servers have said who may have the volumes: neither the copy nor the mounts are given up meanwhile.
func TestLostJournalIsMadeUpForThoughAgentsEndHalfway(t *testing.T) {
	for name, full := range map[string]bool{"the disk was full": true, "all was written": false} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
				spare := v.withSpare()
				at := v.up(workload("gone"))["a"].Source
				v.stop()
				v.journal.lose("")
				complete := false
				disk := &failing{bucket: v.journal}
				v.conf.Journal, v.conf.JournalLost, v.conf.JournalComplete = disk, true, func() error { complete = true; return nil }
				disk.down.Store(full)
				v.start()
				v.knows()
				if full {
					v.svc.Settled()
				}
				v.stop()
				if complete {
					t.Fatal("the journal is said to be complete")
				}
				disk.down.Store(false)
				v.start()
				v.knows()
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if left, _ := spare.All(); len(left) == 0 || v.on(at) == nil || v.released("gone") {
					t.Fatalf("given up before the servers have said which allocations there are; %d copies are left", len(left))
				}
				v.settled()
				v.untilReleased("gone")
				if !complete {
					t.Error("the journal is never said to be complete")
				}
				v.clean()
			})
		})
	}
}
