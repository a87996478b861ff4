package volumes_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

const (
	leaseTerm      = 80 * time.Second
	leaseWriteBack = 20 * time.Second
)

// leasedVolume has claims come with a lease.
func (v *virtual) leasedVolume() {
	v.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
		out.Claim.Lease, out.Claim.WriteBack = leaseTerm, leaseWriteBack
		return nil
	})
}

// ownFileSystem puts a file system of the volume's own at the paths of the allocation.
func (v *virtual) ownFileSystem(id string) {
	v.t.Helper()
	paths := v.svc.Lease(id).Unmount
	target, staging := paths[0], paths[1]
	for _, p := range paths {
		if err := v.host.Unmount(p); err != nil {
			v.t.Fatal(err)
		}
	}
	if err := v.host.Mount("7:1", "ext4", staging, mounts.Flags{}); err != nil {
		v.t.Fatal(err)
	}
	if err := v.host.Bind(staging, target, mounts.Flags{}); err != nil {
		v.t.Fatal(err)
	}
}

func nobodyKeeps(string) bool { return false }

func (v *virtual) ended() (synced, shut int) {
	a, b := v.host.Ended()
	return len(a), len(b)
}

func TestLeaseNamesTheMountsOfTheAllocationAndThoseBesideIt(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		if l := v.svc.Lease("a1"); l != nil || v.svc.ShortestLease().Term != 0 {
			t.Errorf("before anything is mounted: %+v", l)
		}
		v.leasedVolume()
		one := v.up(workload("a1"))["a"].Source
		two := v.up(workload("a2"))["a"].Source
		l := v.svc.Lease("a1")
		if l == nil || l.Term.Term != leaseTerm || l.Term.WriteBack != leaseWriteBack {
			t.Fatalf("lease %+v", l)
		}
		if len(l.Unmount) != 2 || l.Unmount[0] != one || !slices.Equal(l.Beside, []string{two}) {
			t.Errorf("unmounts %q, beside %q; mounted at %q and %q", l.Unmount, l.Beside, one, two)
		}
		v.down("a1")
		v.down("a2")
		if l := v.svc.Lease("a1"); l != nil {
			t.Errorf("after the end: %+v", l)
		}
	})
}

func TestVolumesWhoseUsersNobodyEndsAreWrittenBackAndCutOff(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.leasedVolume()
		v.up(workload("a1"))
		v.ownFileSystem("a1")
		l := v.svc.Lease("a1").Term
		end := func(silence time.Duration, kept bool) (synced, shut, mounted int) {
			v.svc.EndLeases(silence, func(string) bool { return kept })
			v.until("it has begun", func() bool { return true })
			table, _ := v.host.Table()
			synced, shut = v.ended()
			return synced, shut, len(table)
		}
		if a, b, n := end(l.Stop()-1, false); a+b > 0 || n != 2 {
			t.Errorf("too early: %d written back, %d shut down, %d mounts", a, b, n)
		}
		if a, b, n := end(l.Stop(), true); a+b > 0 || n != 2 {
			t.Errorf("somebody else does it: %d written back, %d shut down, %d mounts", a, b, n)
		}
		for range 3 { // not each time that somebody looks
			if a, b, n := end(l.Stop(), false); a != 1 || b > 0 || n != 2 {
				t.Errorf("users are killed: %d written back, %d shut down, %d mounts", a, b, n)
			}
		}
		for range 3 {
			if a, b, n := end((l.Stop()+l.Cut())/2, false); a != 2 || b > 0 || n != 2 {
				t.Errorf("users have ended: %d written back, %d shut down, %d mounts", a, b, n)
			}
		}
		if a, b, n := end(l.Last()-1, false); a != 2 || b > 0 || n != 2 {
			t.Errorf("the supervising process has time: %d written back, %d shut down, %d mounts", a, b, n)
		}
		if _, b, n := end(l.Last(), true); b == 0 || n > 0 {
			t.Errorf("the end is near: %d shut down, %d mounts", b, n)
		}
		if l.Last() >= l.Term {
			t.Error("it is cut off after the end")
		}
		v.down("a1")
	})
}

func TestRenewedLeaseIsEndedAnewNextTime(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.leasedVolume()
		v.up(workload("a1"))
		l := v.svc.Lease("a1").Term
		for range 2 {
			v.svc.EndLeases(l.Stop(), nobodyKeeps)
			synctest.Wait()
			v.svc.EndLeases(0, nobodyKeeps)
		}
		v.until("both were written back", func() bool { n, _ := v.ended(); return n == 2 })
		v.down("a1")
	})
}

// A link that flaps, and a file server that hangs: many volumes of one file system, and many ends of their lease.
func TestHungFileSystemIsWrittenBackByOneThread(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.leasedVolume()
		v.up(workload("a1"))
		v.up(workload("a2"))
		l := v.svc.Lease("a1").Term
		var goOn []func()
		for _, id := range []string{"a1", "a2"} {
			goOn = append(goOn, v.host.HangSync(v.svc.Lease(id).Unmount[0]))
		}
		for range 50 {
			v.svc.EndLeases(l.Stop(), nobodyKeeps)
			synctest.Wait()
			v.svc.EndLeases(0, nobodyKeeps)
		}
		for _, f := range goOn {
			f()
		}
		synctest.Wait()
		if n, _ := v.ended(); n != 1 {
			t.Errorf("%d threads wrote it back", n)
		}
		v.down("a1")
		v.down("a2")
	})
}

// A driver that shows a directory of a file system which others use too must not lose it for them.
func TestFileSystemThatOthersHaveIsOnlyDetached(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.leasedVolume()
		at := v.up(workload("a1"))["a"].Source
		v.ownFileSystem("a1")
		if err := v.host.MakeDir("/others"); err != nil {
			t.Fatal(err)
		}
		if err := v.host.Bind(at, "/others", mounts.Flags{}); err != nil {
			t.Fatal(err)
		}
		v.svc.EndLeases(leaseTerm, nobodyKeeps)
		v.until("it is detached", func() bool { on, _ := v.host.IsPoint(at); return !on })
		if _, shut := v.ended(); shut > 0 {
			t.Error("the file system of the others was shut down")
		}
		v.down("a1")
		_ = v.host.Unmount("/others")
	})
}

func TestTimeOfAnUnmountIsReported(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		var told time.Duration
		v.servers.onReport(func(r *api.VolumeUnpublishRequest) error {
			if r.Error == "" {
				told = r.WriteBack
			}
			return nil
		})
		v.up(workload("a1"))
		v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Delay: 7 * time.Second})
		v.down("a1")
		if told < 7*time.Second {
			t.Errorf("an unmount that took 7s is reported with %s", told)
		}
	})
}

// terms has the claims of allocations come with leases of that many seconds for each volume; 0 is none.
func (v *virtual) terms(of map[string]time.Duration) {
	v.driver.Storage().Add("w")
	v.servers.onClaim(func(_ context.Context, r *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
		if term := of[r.AllocID+" "+r.VolumeID]; term > 0 {
			out.Claim.Lease, out.Claim.WriteBack = term*time.Second, leaseWriteBack
		}
		return nil
	})
}

// The tasks end with the shortest of the leases. What others use for longer is unmounted then too, for its own lease goes
// on without anybody who keeps it, but nothing else is done to its file system.
func TestLeaseNamesAllMountsOfTheAllocation(t *testing.T) {
	both := []*api.VolumeRequest{{Source: "v"}, {Source: "w"}}
	for name, c := range map[string]struct {
		terms  map[string]time.Duration
		beside bool
	}{
		"others have w for longer":    {map[string]time.Duration{"a1 v": 80, "a1 w": 160, "a2 w": 160}, false},
		"others have w for ever":      {map[string]time.Duration{"a1 v": 80, "a1 w": 80}, false},
		"the lease of w was extended": {map[string]time.Duration{"a1 v": 80, "a1 w": 80, "a2 w": 160}, false},
		"others have w as long":       {map[string]time.Duration{"a1 v": 80, "a1 w": 80, "a2 w": 80}, true},
		"others have w as long as v":  {map[string]time.Duration{"a1 v": 80, "a1 w": 160, "a2 w": 80}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				v.terms(c.terms)
				at := v.up(workload("a1", both...))
				beside := v.up(workload("a2", &api.VolumeRequest{Source: "w"}))["a"].Source
				l := v.svc.Lease("a1")
				if l.Term.Term != leaseTerm {
					t.Errorf("the tasks end with %+v", l.Term)
				}
				for _, m := range at {
					if !slices.Contains(l.Unmount, m.Source) {
						t.Errorf("%s is not unmounted, only %q", m.Source, l.Unmount)
					}
				}
				paths, others := 3, []string(nil) // the targets, and where v is staged
				if c.beside {
					paths, others = 4, []string{beside}
				}
				if len(l.Unmount) != paths || !slices.Equal(l.Beside, others) {
					t.Errorf("unmounts %q, beside %q", l.Unmount, l.Beside)
				}
				v.down("a1")
				v.down("a2")
			})
		})
	}
}

// The end of one user's lease is none of another one's whose lease is longer.
func TestFileSystemIsNotShutDownUnderALongerLease(t *testing.T) {
	for name, longer := range map[string]time.Duration{"longer": 160, "none": 0} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				v.terms(map[string]time.Duration{"a1 v": 80, "a2 v": longer})
				one := v.ownedBy("a1", "a2")
				two, staging := v.up(workload("a2"))["a"].Source, v.driver.Calls("NodeStageVolume")[0].Path
				v.svc.EndLeases(leaseTerm, nobodyKeeps)
				synctest.Wait()
				if _, shut := v.ended(); shut > 0 || len(v.host.Aborted()) > 0 || v.on(two) == nil || v.on(staging) == nil {
					t.Errorf("%d file systems were shut down, %q aborted; at its paths are %+v and %+v", shut, v.host.Aborted(), v.on(two), v.on(staging))
				}
				if v.on(one) != nil {
					t.Error("the one whose lease is over has it still")
				}
				v.svc.EndLeases(2*leaseTerm, nobodyKeeps)
				synctest.Wait()
				if _, shut := v.ended(); (shut > 0) != (longer > 0) {
					t.Errorf("%d file systems were shut down in the end", shut)
				}
				v.down("a1")
				v.down("a2")
			})
		})
	}
}

// The node's silence is measured against the lease that ends first, whosever it is.
func TestTheShortestLeaseOfTheNodeCounts(t *testing.T) {
	for _, first := range []string{"short", "long"} {
		inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
			if got := v.svc.ShortestLease(); got.Term != 0 {
				t.Errorf("without volumes: %+v", got)
			}
			v.servers.onClaim(func(_ context.Context, r *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
				out.Claim.Lease, out.Claim.WriteBack = leaseTerm, leaseWriteBack
				if r.AllocID == "long" {
					out.Claim.Lease = 2 * leaseTerm
				}
				return nil
			})
			for _, id := range []string{first, map[string]string{"short": "long", "long": "short"}[first]} {
				v.up(workload(id))
			}
			if got := v.svc.ShortestLease(); got.Term != leaseTerm {
				t.Errorf("%+v, want a term of %s", got, leaseTerm)
			}
		})
	}
}

// slowTable is a host whose mount table takes long to read, as with thousands of mounts.
type slowTable struct {
	mounts.Host
	since *atomic.Int64 // counts the questions
	long  time.Duration
}

func (h slowTable) At(path string) (*mounts.Entry, error) {
	h.since.Add(1)
	time.Sleep(h.long)
	return h.Host.At(path)
}

func (h slowTable) Tops(paths []string) (map[string]*mounts.Entry, mounts.List, error) {
	h.since.Add(1)
	time.Sleep(h.long)
	return h.Host.Tops(paths)
}

func (h slowTable) Table() (mounts.List, error) {
	h.since.Add(1)
	time.Sleep(h.long)
	return h.Host.Table()
}

// The mount table is looked at once for all mounts of a node: at the start, and when their leases end.
func TestMountTableIsReadOnceForAllVolumes(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.leasedVolume()
		for i := range 50 {
			v.up(workload(fmt.Sprintf("w%d", i)))
		}
		v.stop()
		asked := &atomic.Int64{}
		v.conf.Host = slowTable{v.host, asked, 0}
		v.start()
		synctest.Wait()
		if n := asked.Swap(0); n > 10 {
			t.Errorf("read %d times at the start, for 50 mounts", n)
		}
		v.svc.EndLeases(leaseTerm, nobodyKeeps)
		v.until("all are cut off", v.nothing)
		if n := asked.Load(); n > 10 {
			t.Errorf("read %d times when the leases of 50 mounts end", n)
		}
		for i := range 50 {
			v.down(fmt.Sprintf("w%d", i))
		}
	})
}
