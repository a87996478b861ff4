package volumes_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

func TestWaitingForTheTurnIsNeverSuccess(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.up(workload("w"))
	r.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Times: 1, Hang: true})
	first, giveUp := context.WithCancel(r.ctx())
	var down sync.WaitGroup
	down.Go(func() { _ = r.svc.Down(first, "w") })
	if err := r.driver.Await(r.ctx(), "NodeUnpublishVolume", 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.ctx(), 50*time.Millisecond)
	defer cancel()
	_, err := handle(r, ctx, wire.NodeVolumeDetach, &api.NodeVolumeDetachRequest{
		Namespace: "default", VolumeID: "v", ExternalID: "v", PluginID: "p", AllocID: "w",
	})
	if err == nil {
		t.Error("a detach that had to wait too long is a success")
	}
	giveUp()
	down.Wait()
	r.servers.until(t, "released", func() bool { return r.servers.isReleased("w") })
}

func TestStagingCountSurvivesPluginReplacement(t *testing.T) {
	r := newRig(t, fake.Config{})
	first := r.plugIn("plug1")
	r.up(workload("w1"))
	r.up(workload("w2"))
	second := r.prepare("plug2", api.CSIPluginTypeMonolith)
	r.serve(second, r.driver)
	r.supervise(second)
	r.node("the newer one takes over", func(i *api.CSIInfo) bool { return i != nil && i.AllocID == "plug2" })
	r.unplug(first)
	r.down("plug1")
	r.down("w1")
	if n := r.count("NodeUnstageVolume"); n != 0 {
		t.Errorf("unstaged %d times under another allocation", n)
	}
	r.down("w2")
}

func TestFailedUnmountKeepsTheClaim(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.up(workload("w"))
	r.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Code: codes.Internal, Text: "device is busy"})
	if err := r.svc.Down(r.ctx(), "w"); err == nil || !strings.Contains(err.Error(), "device is busy") {
		t.Errorf("Down returns %v", err)
	}
	if err := r.driver.Await(r.ctx(), "NodeUnpublishVolume", 4); err != nil {
		t.Fatal(err)
	}
	r.servers.until(t, "told of the failure", func() bool { return len(r.servers.failures) > 0 })
	r.servers.until(t, "kept", func() bool { return !r.servers.isReleased("w") && len(r.servers.failures) == 1 })
	if n := r.count("NodeUnstageVolume"); n != 0 {
		t.Error("unstaged although unpublishing fails")
	}
	r.driver.Heal()
	r.servers.until(t, "released once it works", func() bool { return r.servers.isReleased("w") })
}

func TestClaimWaitEndsWithTheContext(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.servers.onClaim(func(ctx context.Context, _ *api.VolumeClaimRequest, _ *api.VolumeClaimResponse) error {
		<-ctx.Done()
		return ctx.Err()
	})
	ctx, cancel := context.WithCancel(r.ctx())
	done := make(chan error, 1)
	go func() { _, err := r.svc.Up(ctx, workload("w")); done <- err }()
	r.servers.until(t, "claimed", func() bool { return r.servers.claims == 1 })
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Up returns %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("Up still waits")
	}
	r.down("w")
	if n := len(r.driver.Calls("NodeStageVolume", "NodePublishVolume")); n != 0 {
		t.Errorf("%d calls of a volume that was never claimed", n)
	}
}

func TestClaimErrorsThatPassAreRetried(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	passing := []error{fault.New(fault.NotLeader, "no leader"), fault.New(fault.Unavailable, "EOF"), fault.New(fault.Timeout, "slow")}
	r.servers.onClaim(func(context.Context, *api.VolumeClaimRequest, *api.VolumeClaimResponse) error {
		r.servers.mu.Lock()
		defer r.servers.mu.Unlock()
		if len(passing) == 0 {
			return nil
		}
		err := passing[0]
		passing = passing[1:]
		return err
	})
	r.up(workload("w"))
	r.down("w")
	r.servers.onClaim(func(context.Context, *api.VolumeClaimRequest, *api.VolumeClaimResponse) error {
		return fault.New(fault.NotFound, "no such volume")
	})
	if _, err := r.svc.Up(r.ctx(), workload("w2")); !errors.Is(err, fault.NotFound) {
		t.Errorf("a final claim error answers %v", err)
	}
	r.down("w2")
}

func TestRestoredMountIsAdoptedWithoutPluginOrServers(t *testing.T) {
	r := newRig(t, fake.Config{})
	p := r.plugIn("plug")
	before := r.up(workload("w"))
	r.stop()
	p.stopDriver()
	<-p.served
	claims, calls := r.servers.claims, len(r.driver.Calls())
	r.start()
	after := r.up(workload("w"))
	if before["a"] != after["a"] || r.servers.claims != claims || len(r.driver.Calls()) != calls {
		t.Errorf("adopted %+v for %+v with %d claims and %d calls", after, before, r.servers.claims-claims, len(r.driver.Calls())-calls)
	}
	r.serve(p, r.driver)
	r.supervise(p)
	_ = r.svc.Down(r.ctx(), "w") // the first try may still find nobody; Run tries again
	r.servers.until(t, "released", func() bool { return r.servers.isReleased("w") })
}

func TestWaitForAPluginIsBounded(t *testing.T) {
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) { c.PluginWait = 20 * time.Millisecond })
	if _, err := r.svc.Up(r.ctx(), workload("w")); err == nil || !strings.Contains(err.Error(), `no node plugin "p"`) {
		t.Errorf("Up without plugin answers %v", err)
	}
	r.down("w")
}

// TestPluginGoesAfterThoseWhoLeave stops a plugin together with one of its two users, as on a node that comes
// back after it was lost.
func TestPluginGoesAfterThoseWhoLeave(t *testing.T) {
	u := newUsers()
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) { c.Tasks = u })
	r.driver.Storage().Add("w")
	p := r.plugIn("plug")
	stays := workload("stays")
	stays.Job.TaskGroups[0].Volumes["a"].Source = "w"
	r.up(stays)
	r.up(workload("leaves"))
	p.goes(t)

	u.leave("leaves")
	p.keeps(t, func() { r.down("leaves") })

	u.mu.Lock()
	u.lost["plug"] = true
	u.mu.Unlock()
	p.keeps(t, func() { r.down("stays") })

	r.up(workload("third"))
	r.unplug(p)
	p.goes(t) // it cannot unmount anything
	r.plugIn("plug")
}

func (p *plug) goes(t *testing.T) {
	t.Helper()
	p.task.Quiesce(t.Context(), func(kind, text string) { t.Errorf("told of a wait: %s: %s", kind, text) })
}

// keeps asserts that the plugin is kept until what is done then, and tells so once.
func (p *plug) keeps(t *testing.T, until func()) {
	t.Helper()
	said, gone := make(chan string, 10), make(chan struct{})
	go func() {
		defer close(gone)
		p.task.Quiesce(t.Context(), func(kind, text string) { said <- kind + ": " + text })
	}()
	select {
	case text := <-said:
		if !strings.HasPrefix(text, "Waiting: 1 volumes") {
			t.Errorf("told %q", text)
		}
	case <-gone:
		t.Fatal("the plugin goes while a volume is mounted for an allocation that leaves")
	}
	until()
	select {
	case <-gone:
	case <-time.After(30 * time.Second):
		t.Fatal("the plugin is kept")
	}
	if len(said) != 0 {
		t.Errorf("told twice: %q", <-said)
	}
}

// Why an allocation does not end, such as a process that the kernel does not kill, is the reason of each of its claims.
func TestReasonOfAnAllocationThatDoesNotEndIsToldForItsClaims(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.driver.Storage().Add("x")
		v.up(workload("w", &api.VolumeRequest{Source: "v"}, &api.VolumeRequest{Source: "x"}))
		v.up(workload("other"))
		var told []string
		v.servers.onReport(func(r *api.VolumeUnpublishRequest) error {
			if r.Error != "" {
				told = append(told, r.AllocID+" "+r.VolumeID+": "+r.Error)
			}
			return nil
		})
		const why = "task t: process 7 (dd) is stuck in the kernel"
		for range 2 { // the same once more is no news
			v.svc.Explain(t.Context(), "w", why)
		}
		synctest.Wait()
		slices.Sort(told)
		if len(told) != 2 || told[0] != "w v: "+why || told[1] != "w x: "+why {
			t.Errorf("told %q", strings.Join(told, "\n"))
		}
		v.down("w")
		v.down("other")
		v.clean()
	})
}
