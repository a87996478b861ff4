package volumes_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

func flags(f ...string) *api.MountOptions { return &api.MountOptions{MountFlags: f} }

// twice uses the volume v for writing and for reading, each with flags of its own.
func twice(id string) *api.Allocation {
	multi := string(api.AccessMultiNodeMultiWriter)
	return workload(id,
		&api.VolumeRequest{Source: "v", AccessMode: multi, MountOptions: flags("nodev", "noatime")},
		&api.VolumeRequest{Source: "v", AccessMode: multi, ReadOnly: true, MountOptions: flags("noexec", "noatime")})
}

// byUse answers claims with the options and mode of the use.
func byUse(a *api.Allocation) func(context.Context, *api.VolumeClaimRequest, *api.VolumeClaimResponse) error {
	return func(_ context.Context, q *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
		for _, u := range a.VolumeUses() {
			if u.Name == q.Use {
				out.Claim.MountOptions, out.Claim.Mode = u.MountOptions, api.ClaimWrite
				if u.ReadOnly {
					out.Claim.Mode = api.ClaimRead
				}
			}
		}
		return nil
	}
}

func stagedFlags(d *fake.Driver) []string {
	return d.Calls("NodeStageVolume")[0].Request.(*pb.NodeStageVolumeRequest).GetVolumeCapability().GetMount().GetMountFlags()
}

func TestEachUseOfAVolumeIsMountedWithItsOwnOptions(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		a := twice("w")
		v.servers.onClaim(byUse(a))
		m := v.up(a)
		rw, ro := v.on(m["a"].Source), v.on(m["b"].Source)
		if rw == nil || ro == nil || rw.Point == ro.Point {
			t.Fatalf("mounts %+v", m)
		}
		if m["a"].ReadOnly || !m["b"].ReadOnly {
			t.Errorf("read-only: %v and %v", m["a"].ReadOnly, m["b"].ReadOnly)
		}
		// The driver sets none of the flags; the node adds those that protect.
		if want := (mounts.Flags{NoDev: true}); rw.Flags != want {
			t.Errorf("the writing mount has %s", rw.Flags)
		}
		if want := (mounts.Flags{NoExec: true, ReadOnly: true}); ro.Flags != want {
			t.Errorf("the reading mount has %s", ro.Flags)
		}
		if n := v.count("NodeStageVolume"); n != 1 {
			t.Errorf("staged %d times", n)
		}
		if got := stagedFlags(v.driver); !slices.Equal(got, []string{"noatime"}) {
			t.Errorf("staged with %v, of which not all uses have all", got)
		}
		var published []string
		for _, c := range v.driver.Calls("NodePublishVolume") {
			published = append(published, strings.Join(c.Request.(*pb.NodePublishVolumeRequest).GetVolumeCapability().GetMount().GetMountFlags(), ","))
		}
		if slices.Sort(published); !slices.Equal(published, []string{"nodev,noatime", "noexec,noatime"}) {
			t.Errorf("published with %v", published)
		}
		told := v.svc.Mounts()
		slices.SortFunc(told, func(x, y *api.StaleMount) int { return strings.Compare(x.Use, y.Use) })
		if len(told) != 2 || told[0].Use != "a" || told[1].Use != "b" {
			t.Errorf("the servers are told of %+v", told)
		}
		v.stop()
		v.start()
		v.knows(a)
		if again := v.up(a); again["a"] != m["a"] || again["b"] != m["b"] {
			t.Errorf("adopted %+v for %+v", again, m)
		}
		v.down("w")
		v.clean()
		v.servers.mu.Lock()
		defer v.servers.mu.Unlock()
		if slices.Sort(v.servers.uses); !slices.Equal(v.servers.uses, []string{"v/a", "v/b"}) {
			t.Errorf("released %v", v.servers.uses)
		}
	})
}

// One use that is taken down leaves the staging to the other.
func TestUsesAreDetachedByThemselves(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		a := twice("over")
		v.servers.onClaim(byUse(a))
		v.up(a)
		v.stop()
		v.start()
		v.knows(a)
		if err := v.detach(&api.NodeVolumeDetachRequest{AllocID: "over", Use: "a"}); err != nil {
			t.Fatal(err)
		}
		if n := v.count("NodeUnstageVolume"); n != 0 {
			t.Error("unstaged under the other use")
		}
		if err := v.detach(&api.NodeVolumeDetachRequest{AllocID: "over", Use: "b"}); err != nil {
			t.Fatal(err)
		}
		v.clean()
	})
}

func TestRequestsThatContradictEachOtherAreRefused(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		multi := string(api.AccessMultiNodeMultiWriter)
		a := workload("w", &api.VolumeRequest{Source: "v", AccessMode: multi, MountOptions: flags("data=journal")},
			&api.VolumeRequest{Source: "v", AccessMode: multi, MountOptions: flags("data=ordered")})
		v.servers.onClaim(byUse(a))
		_, err := v.svc.Up(t.Context(), a)
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("Up returns %v", err)
		}
		v.down("w")
		v.clean()
	})
}

// A second allocation shares a staging only when that has nothing which it did not ask for.
func TestUsersOfAStagingAgreeOnItsOptions(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second *api.MountOptions
		shared        bool
	}{
		{"the same", flags("noatime"), flags("noatime"), true},
		{"more flags of its mount", flags("noatime"), flags("noatime", "nodev"), true},
		{"a flag that the staging has is missing", flags("noatime", "ro"), flags("noatime"), false},
		{"another file system", &api.MountOptions{FSType: "ext4"}, &api.MountOptions{FSType: "xfs"}, false},
		{"another option of the file system", flags("data=journal"), flags("data=ordered"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				v.servers.onClaim(func(_ context.Context, q *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
					out.Claim.MountOptions = map[string]*api.MountOptions{"first": c.first, "second": c.second}[q.AllocID]
					return nil
				})
				v.up(workload("first"))
				_, err := v.svc.Up(t.Context(), workload("second"))
				switch {
				case c.shared && err != nil:
					t.Error(err)
				case !c.shared && (!errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "allocation first")):
					t.Errorf("the refusal is %v", err)
				}
				v.down("second")
				if n := v.count("NodeUnstageVolume"); n != 0 {
					t.Error("unstaged under the first allocation")
				}
				v.down("first")
				v.clean()
			})
		})
	}
}

// Nobody is in the way of options that the next user wants.
func TestStagingOfAnEarlierUserIsMadeAnewForOtherOptions(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.servers.onClaim(func(_ context.Context, q *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
			out.Claim.MountOptions = map[string]*api.MountOptions{"first": flags("data=journal"), "second": flags("data=ordered")}[q.AllocID]
			return nil
		})
		v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Code: codes.InvalidArgument})
		if _, err := v.svc.Up(t.Context(), workload("first")); err == nil {
			t.Fatal("published")
		}
		v.journal.Delete(slices.Collect(v.journal.keys("row/"))[0]) // the row is lost, the staging is not
		v.stop()
		v.start()
		v.up(workload("second"))
		if n := v.count("NodeUnstageVolume"); n != 1 || v.count("NodeStageVolume") != 2 {
			t.Errorf("staged %d times, unstaged %d times", v.count("NodeStageVolume"), n)
		}
		v.down("second")
		v.clean()
	})
}

// A volume that is staged for reading only is no place for a writer.
func TestWriterWaitsForTheEndOfAStagingForReaders(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.servers.onClaim(func(_ context.Context, q *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
			if q.AllocID == "reader" {
				out.Claim.AccessMode, out.Claim.Mode = api.AccessMultiNodeReader, api.ClaimRead
			}
			return nil
		})
		v.up(workload("reader"))
		var writer sync.WaitGroup
		up := false
		writer.Go(func() { v.up(workload("writer")); up = true })
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if up {
			t.Error("the writer has it while it is staged for readers")
		}
		v.down("reader")
		writer.Wait()
		if n := v.count("NodeStageVolume"); n != 2 {
			t.Errorf("staged %d times", n)
		}
		v.down("writer")
		v.clean()
	})
}

// Protective flags hold on real mounts although the driver passes them over.
func TestProtectiveFlagsHoldOnDisk(t *testing.T) {
	r := newRig(t, fake.Config{})
	a := twice("w")
	r.servers.onClaim(byUse(a))
	r.plugIn("plug")
	m := r.up(a)
	script := filepath.Join(m["a"].Source, "s")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Errorf("the writing mount: %v", err)
	}
	if err := exec.Command(script).Run(); err != nil {
		t.Errorf("the writing mount is not executable: %v", err)
	}
	if err := exec.Command(filepath.Join(m["b"].Source, "s")).Run(); err == nil {
		t.Error("a noexec mount executes")
	}
	if err := os.WriteFile(filepath.Join(m["b"].Source, "x"), nil, 0o644); err == nil {
		t.Error("a read-only mount is written to")
	}
	at, err := mounts.At(m["a"].Source)
	if err != nil || !at.Flags.NoDev || at.Flags.ReadOnly {
		t.Errorf("the writing mount has %s: %v", at.Flags, err)
	}
	r.down("w")
}

// A plugin that hangs in a controller call is known to be unhealthy within 4 s, and the leader's time limit is that
// of the call.
func TestPluginThatHangsInACallIsSoonUnhealthy(t *testing.T) {
	inVirtualTime(t, fake.Config{Attach: true}, func(t *testing.T, v *virtual) {
		healthy := make(chan bool, 10)
		v.stop()
		v.conf.Updated = func(controllers, _ map[string]*api.CSIInfo) {
			if c := controllers["p"]; c != nil {
				select {
				case healthy <- c.Healthy:
				default: // the first ones count
				}
			}
		}
		v.start()
		for len(healthy) > 0 {
			<-healthy
		}
		v.driver.Script(fake.Fault{RPC: "Probe", Hang: true}, fake.Fault{RPC: "ControllerPublishVolume", Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Minute)
		defer cancel()
		begin := time.Now()
		done := make(chan time.Duration, 1)
		go func() {
			_, _ = serve(t, v.svc, ctx, wire.ControllerPublish, &api.ControllerPublishRequest{
				ControllerCall: api.ControllerCall{PluginID: "p", Fence: 5}, ExternalID: "v", ProviderNodeID: "fake-node",
				AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem,
			})
			done <- time.Since(begin)
		}()
		if <-healthy {
			t.Error("it is told to be healthy")
		}
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("it was unhealthy after %s", took)
		}
		if took := <-done; took < 7*time.Minute {
			t.Errorf("the call ended after %s, though the leader gave it longer", took)
		}
		v.driver.Heal()
	})
}

// Giving a volume to its owner takes long, tells how far it is, and is in nobody's way.
func TestOwnerWalkHoldsNeitherTurnNorPlace(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.driver.Storage().Add("other")
		v.stop()
		v.conf.PluginCalls = 1
		v.conf.Own = func(ctx context.Context, _ string, _ *api.VolumeOwner, _ bool, seen *atomic.Int64) error {
			for {
				select {
				case <-time.After(time.Millisecond):
					seen.Add(1)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		v.start()
		v.servers.onClaim(func(_ context.Context, q *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
			if q.AllocID == "big" {
				out.Volume.Owner = &api.VolumeOwner{UID: 1000, GID: 1000, Policy: api.OwnerAlways}
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := v.svc.Up(ctx, workload("big")); done <- err }()
		v.until("published", func() bool { return v.count("NodePublishVolume") == 1 })
		begin := time.Now()
		v.up(workload("small", &api.VolumeRequest{Source: "other"})) // another volume of the plugin
		v.up(workload("beside"))                                     // the same volume
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("the others waited %s", took)
		}
		time.Sleep(time.Minute)
		v.servers.mu.Lock()
		told := slices.Clone(v.servers.failures)
		v.servers.mu.Unlock()
		if len(told) < 2 || !strings.Contains(told[1], "owner of the volume's files is set") || told[0] == told[len(told)-1] {
			t.Errorf("the servers were told %q", told)
		}
		if n := v.users.count(volumes.EventWaiting + " big"); n != 1 {
			t.Errorf("the tasks were told %d times", n)
		}
		cancel() // the allocation ends, and so does the walk
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Up returns %v", err)
		}
		for _, id := range []string{"big", "small", "beside"} {
			v.down(id)
		}
	})
}
