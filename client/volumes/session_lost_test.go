package volumes_test

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// Where the driver mounts nothing at the staging path, no mount tells that a volume is used whose record is lost.
func TestSessionStaysUnderAMountWhoseRecordIsLost(t *testing.T) {
	for name, spoil := range map[string]func(*bucket, string){
		"lost":       func(b *bucket, key string) { _ = b.Delete(key) },
		"unreadable": func(b *bucket, key string) { _ = b.Put(key, []byte("{")) },
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
				w := workload("w")
				at := v.up(w)["a"].Source
				v.stop()
				for key := range v.journal.keys("row/") {
					spoil(v.journal, key)
				}
				v.start()
				v.knows(w)
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

// A session is closed in the end although the journal was lost as a whole.
func TestSessionOfALostJournalIsClosed(t *testing.T) {
	for name, end := range map[string]func(*virtual, *api.Allocation){
		"by the allocation": func(v *virtual, a *api.Allocation) {
			v.up(a)
			v.down(a.ID)
		},
		"by a detach": func(v *virtual, a *api.Allocation) {
			if err := v.svc.Down(v.t.Context(), a.ID); err == nil {
				v.t.Error("Down of a mount without a record succeeds")
			}
			if err := v.detach(&api.NodeVolumeDetachRequest{AllocID: a.ID}); err != nil {
				v.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
				over := workload("over")
				v.up(over)
				v.stop()
				v.journal.lose("")
				v.start()
				v.knows(over)
				end(v, over)
				v.clean()
			})
		})
	}
}

// A journal that is older than the mounts, as one of a backup, does not lead to an unstage under a mount: the record of
// the staging shows another file system than the one that is staged.
func TestNothingIsUnstagedByAJournalOfBefore(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.up(workload("over"))
		old, _ := v.journal.All()
		v.down("over")
		v.driver.Change(func(c *fake.Config) { c.DataDir = "/elsewhere" })
		w := workload("w")
		v.up(w)
		v.stop()
		v.journal.lose("")
		for key, raw := range old {
			_ = v.journal.Put(key, raw)
		}
		v.start()
		v.knows(workload("over"))
		if err := v.svc.Down(t.Context(), "over"); err == nil {
			t.Error("the staging of the other allocation is said to be gone")
		}
		if n := v.count("NodeUnstageVolume"); n != 1 {
			t.Errorf("unstaged %d times: once for the first, and not under the second", n)
		}
		v.up(w)
		v.down("w")
		v.until("all is forgotten", v.forgotten)
		v.clean()
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

// A session of no record that the driver has closed, although it failed to say so, is opened again for who comes next.
func TestSessionOfNobodyThatMayBeClosedIsOpenedAgain(t *testing.T) {
	inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
		at := v.up(workload("gone"))["a"].Source
		v.stop()
		v.journal.lose("row/")
		if err := v.host.Unmount(at); err != nil {
			t.Fatal(err)
		}
		v.driver.Storage().Excuse("fake-node", true)
		v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Times: 4, Late: true, Code: codes.Internal, Text: "closed, and something else failed"})
		v.start()
		v.knows()
		v.until("it was asked to close it", func() bool { return v.count("NodeUnstageVolume") == 1 })
		v.up(workload("w"))
		if n := v.count("NodeStageVolume"); n != 2 {
			t.Errorf("the session was opened %d times", n)
		}
		_ = v.svc.Down(t.Context(), "w")
		v.untilReleased("w")
	})
}
