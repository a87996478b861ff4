package volumes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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
		v.settled()
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
				if got := v.svc.ShortestLease(); (got.Stop() == term.Stop()) != c.cut || (v.svc.Lease("w") != nil) != (c.cut && !c.unknown) || c.cut && !v.svc.Leased()("w") {
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
				v.settled()
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

// An allocation that starts while its unrecorded mount is unmounted either keeps the mount or is mounted again.
func TestMountOfAnAllocationThatStartsDuringTheUnmountIsThere(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.up(workload("w"))["a"].Source
		v.stop()
		v.journal.lose("")
		v.start()
		v.knows()
		v.driver.Storage().Excuse("fake-node", true) // it keeps a book of what it has published
		goOn := v.host.HangUnmount(at)
		v.settled()
		time.Sleep(10 * time.Second)
		up := make(chan error, 1)
		go func() { _, err := v.svc.Up(t.Context(), workload("w")); up <- err }()
		time.Sleep(time.Minute)
		goOn()
		if err := <-up; err != nil {
			t.Error(err)
		}
		if v.on(at) == nil || v.svc.Mounted("w") != nil {
			t.Error("the allocation has no mount")
		}
	})
}

// A mount of an allocation that the servers list stays, whether the node has started the allocation or not.
func TestMountOfAListedAllocationStays(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.up(workload("w"))["a"].Source
		v.stop()
		v.journal.lose("")
		v.start()
		v.knows()
		v.svc.Listed([]*api.Allocation{workload("w"), nil})
		v.svc.Settled()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if err := v.svc.Down(t.Context(), "w"); err == nil || v.on(at) == nil || v.released("w") {
			t.Errorf("Down of an allocation that was not started returns %v", err)
		}
	})
}

// moves renames the state directory while the agent does not run. What is mounted below it goes along.
func (v *virtual) moves() {
	v.stop()
	v.host.Move(v.conf.StateDir, "/elsewhere"+v.conf.StateDir)
	v.conf.StateDir = "/elsewhere" + v.conf.StateDir
	v.start()
}

func TestMountsBelowARenamedDirectoryAreAdopted(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		w := workload("w")
		at := v.up(w)["a"].Source
		v.moves()
		v.knows(w)
		if now := v.up(w)["a"].Source; now != "/elsewhere"+at || v.on(now) == nil {
			t.Errorf("it is said to be mounted at %s", now)
		}
		if n := v.count("NodePublishVolume"); n != 1 {
			t.Errorf("published %d times", n)
		}
		if table, _ := v.host.Table(); len(table) != 2 {
			t.Errorf("%d mounts", len(table))
		}
	})
}

func TestMountBelowARenamedDirectoryIsNotReleased(t *testing.T) {
	inVirtualTime(t, fake.Config{NoStage: true}, func(t *testing.T, v *virtual) {
		over := workload("over")
		v.up(over)
		v.moves()
		v.knows(over)
		v.settled()
		if err := v.svc.Down(t.Context(), "over"); err == nil || v.released("over") {
			t.Errorf("Down returns %v", err)
		}
		if err := v.detach(&api.NodeVolumeDetachRequest{AllocID: "over"}); err != nil {
			t.Error(err)
		}
		if table, _ := v.host.Table(); len(table) != 0 {
			t.Errorf("%s is mounted, and released", table[0].Point)
		}
		v.until("the journal is empty", v.forgotten)
	})
}

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
			v.settled()
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
