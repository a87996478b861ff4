package volumes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// waits begins the mounts of an allocation and expects that they are not made as long as it is told to wait. The
// function that it returns waits for their end.
func (v *virtual) waits(a *api.Allocation, why string) (end func() error) {
	v.t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := v.svc.Up(v.t.Context(), a)
		done <- err
	}()
	time.Sleep(5 * time.Minute)
	synctest.Wait()
	select {
	case err := <-done:
		v.t.Errorf("%s: it does not wait: %v", why, err)
		done <- err
	default:
	}
	return func() error { return <-done }
}

// A claim may be given up by the servers while the mount of its allocation is here, and the record of that be
// unreadable: the mount counts all the same.
func TestVolumeOfOneUserWaitsForAMountWhoseRecordCannotBeRead(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
			out.Claim.AccessMode = api.AccessSingleNodeWriter
			return nil
		})
		old := workload("old")
		v.up(old)
		v.stop()
		v.journal.spoil("row/")
		v.start()
		v.knows(old)
		end := v.waits(workload("new"), "the first has it")
		if n := v.count("NodePublishVolume"); n != 1 {
			t.Errorf("published %d times", n)
		}
		v.up(old) // its record is made anew
		v.down("old")
		if err := end(); err != nil {
			t.Error(err)
		}
		v.down("new")
		v.clean()
	})
}

// A mount whose record cannot be read may have a lease: it is kept as the shortest that is known.
func TestMountWhoseRecordCannotBeReadIsCutOffWithItsLease(t *testing.T) {
	term := api.LeaseTerm{Term: leaseTerm, WriteBack: leaseWriteBack}
	for name, c := range map[string]struct {
		presumed api.LeaseTerm
		spoil    string
		unknown  bool // nobody knows the allocation any more
		cut      bool
	}{
		"the row":                      {presumed: term, spoil: "row/", cut: true},
		"row and staging":              {presumed: term, spoil: "", cut: true},
		"of an unknown allocation":     {presumed: term, spoil: "row/", unknown: true, cut: true},
		"no lease is known":            {spoil: "row/"},
		"the record of the stage only": {presumed: term, spoil: "stage/", cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				v.leasedVolume()
				w, at := workload("w"), v.ownedBy("w")
				v.stop()
				v.journal.spoil(c.spoil)
				v.start()
				v.svc.Presume(c.presumed)
				if !c.unknown {
					v.knows(w)
				}
				if got := v.svc.ShortestLease(); (got.Stop() == term.Stop()) != c.cut || (v.svc.Lease("w") != nil) != c.cut {
					t.Errorf("the shortest lease is %+v", got)
				}
				v.stop() // or it unstages what was cut off
				v.svc.EndLeases(term.Last(), nobodyKeeps)
				synctest.Wait()
				if cut := v.on(at) == nil; cut != c.cut {
					t.Errorf("cut off: %v", cut)
				}
				table, _ := v.host.Table()
				if _, shut := v.ended(); c.cut && (shut == 0 || len(table) > 0) {
					t.Errorf("shut down %d times, mounted: %v", shut, table)
				}
			})
		})
	}
}

// What the journal has lost may be used by a running task: nothing is unstaged below it.
func TestNothingIsUnstagedUnderAMountThatTheJournalHasLost(t *testing.T) {
	for which, lose := range map[string]func(*bucket){
		"unreadable row": func(b *bucket) { b.spoil("row/") },
		"no row":         func(b *bucket) { b.lose("row/") },
		"no record":      func(b *bucket) { b.lose("") },
	} {
		t.Run(which, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				v.servers.onClaim(func(_ context.Context, q *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
					out.Claim.MountOptions = map[string]*api.MountOptions{"over": flags("data=journal"), "new": flags("data=ordered")}[q.AllocID]
					return nil
				})
				at := v.up(workload("over"))["a"].Source
				v.stop()
				lose(v.journal)
				v.start()
				v.knows(workload("over"))
				end := v.waits(workload("new"), "another mount is below")
				if v.on(at) == nil || v.count("NodeUnstageVolume") > 0 {
					t.Errorf("unstaged %d times under a mount", v.count("NodeUnstageVolume"))
				}
				if err := v.detach(&api.NodeVolumeDetachRequest{AllocID: "over"}); err != nil {
					t.Errorf("the servers' detach: %v", err)
				}
				if err := end(); err != nil {
					t.Error(err)
				}
				v.down("new")
				v.clean()
			})
		})
	}
}

// lose removes the records whose keys begin so.
func (b *bucket) lose(prefix string) {
	for k := range b.keys(prefix) {
		_ = b.Delete(k)
	}
}
