package volumes_test

import (
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// A journal may be gone as a whole while tasks run: what is mounted below the node's directories is taken up, and nothing
// is published under them again.
func TestMountsOfALostJournalAreTakenUp(t *testing.T) {
	for name, knows := range map[string]bool{"the allocation is known": true, "the node has lost its allocations too": false} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				w := workload("w")
				at := v.up(w)["a"]
				v.stop()
				v.journal.lose("")
				v.start()
				if knows {
					v.knows(w)
				} else {
					v.knows()
				}
				calls := len(v.driver.Calls("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"))
				if again := v.up(w)["a"]; again != at {
					t.Errorf("the mount is %+v, was %+v", again, at)
				}
				if got := v.driver.Calls("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"); len(got) != calls {
					t.Errorf("the driver was called for a mount that is there: %v", got[calls:])
				}
				if told := v.svc.Mounts(); len(told) != 1 || told[0].AllocID != "w" || told[0].ExternalID != "v" {
					t.Errorf("the servers are told of %+v", told)
				}
				v.down("w")
				v.untilReleased("w")
				v.clean()
			})
		})
	}
}

// The servers must not hear that a volume is released which the journal has lost, and which is mounted.
func TestMountOfALostJournalIsNotReleased(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		over := workload("over")
		at := v.up(over)["a"].Source
		v.stop()
		v.journal.lose("")
		v.start()
		v.knows(over)
		if err := v.svc.Down(t.Context(), "over"); err == nil || v.on(at) == nil || v.released("over") {
			t.Errorf("Down of a mount without a record returns %v", err)
		}
		if told := v.svc.Mounts(); len(told) != 1 || told[0].AllocID != "over" || told[0].VolumeID != "v" || told[0].PluginID != "p" {
			t.Errorf("the servers are told of %+v", told)
		}
		if err := v.detach(&api.NodeVolumeDetachRequest{AllocID: "over"}); err != nil {
			t.Error(err)
		}
		if err := v.svc.Down(t.Context(), "over"); err != nil || len(v.svc.Mounts()) != 0 {
			t.Errorf("when all is gone: %v", err)
		}
		v.clean()
	})
}

// Mounts of a lost journal keep the shortest lease that is known, also when nobody knows whose they are.
func TestMountsOfALostJournalAreCutOffWithTheLease(t *testing.T) {
	term := api.LeaseTerm{Term: leaseTerm, WriteBack: leaseWriteBack}
	for name, known := range map[string]bool{"known": true, "unknown": false} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				v.leasedVolume()
				at := v.ownedBy("w")
				v.stop()
				v.journal.lose("")
				v.start()
				v.svc.Presume(term)
				if known {
					v.knows(workload("w"))
				} else {
					v.knows()
				}
				if got := v.svc.ShortestLease(); got.Stop() != term.Stop() || !v.svc.Leased()("w") {
					t.Errorf("the shortest lease is %+v", got)
				}
				v.stop()
				v.svc.EndLeases(term.Last(), nobodyKeeps)
				synctest.Wait()
				if _, shut := v.ended(); v.on(at) != nil || shut == 0 {
					t.Errorf("shut down %d times; at the target is %+v", shut, v.on(at))
				}
				if v.svc.ShortestLease().Term != 0 || !known && v.svc.Leased()("w") {
					t.Error("a lease is kept of nothing")
				}
			})
		})
	}
}
