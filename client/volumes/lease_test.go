package volumes_test

import (
	"context"
	"slices"
	"testing"
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
		if a, b, n := end(l.Last()-1, false); a != 1 || b > 0 || n != 2 {
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
			v.svc.EndLeases(0, nobodyKeeps)
		}
		v.until("both were written back", func() bool { n, _ := v.ended(); return n == 2 })
		v.down("a1")
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
