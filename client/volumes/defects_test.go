package volumes_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

func TestC1UnavailableIsRetried(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.driver.Script(fake.Fault{RPC: "NodeStageVolume", Times: 2, Code: codes.Unavailable},
		fake.Fault{RPC: "NodePublishVolume", Times: 1, Code: codes.Aborted})
	r.up(workload("w"))
	if n := r.count("NodeStageVolume"); n < 3 {
		t.Errorf("%d stage calls", n)
	}
	r.down("w")
}

func TestC2HungCallHasADeadline(t *testing.T) {
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) { c.Timeouts = csi.Timeouts{Change: 100 * time.Millisecond} })
	r.plugIn("plug")
	r.up(workload("w"))
	r.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Times: 1, Hang: true})
	if err := r.svc.Down(r.ctx(), "w"); err == nil {
		t.Error("a hung unpublish is a success")
	}
	r.servers.until(t, "released by the retry", func() bool { return r.servers.isReleased("w") })
	if n := r.mounted(); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}

func TestC3WaitingForTheTurnIsNeverSuccess(t *testing.T) {
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
		Namespace: "default", VolumeID: "v", ExternalID: "v", PluginID: "p", AllocID: "w"})
	if err == nil {
		t.Error("a detach that had to wait too long is a success")
	}
	giveUp()
	down.Wait()
	r.servers.until(t, "released", func() bool { return r.servers.isReleased("w") })
}

func TestC4MountOptionsDoNotSplitTheCount(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	with := func(id string) *api.Allocation {
		return workload(id, &api.VolumeRequest{Source: "v", MountOptions: &api.MountOptions{FSType: "ext4"}})
	}
	r.up(with("w1"))
	r.up(with("w2"))
	r.down("w1")
	if n := r.count("NodeUnstageVolume"); n != 0 {
		t.Errorf("unstaged %d times while another allocation uses the volume", n)
	}
	r.down("w2")
	if n := r.count("NodeUnstageVolume"); n != 1 {
		t.Errorf("unstaged %d times by the last one", n)
	}
}

func TestC5StagingCountSurvivesRestart(t *testing.T) {
	r := newRig(t, fake.Config{})
	p := r.plugIn("plug")
	r.up(workload("w1"))
	r.up(workload("w2"))
	r.restart()
	r.supervise(p)
	r.down("w1")
	if n := r.count("NodeUnstageVolume"); n != 0 {
		t.Errorf("unstaged %d times under another allocation", n)
	}
	r.down("w2")
	if n := r.count("NodeUnstageVolume"); n != 1 {
		t.Errorf("unstaged %d times by the last one", n)
	}
}

func TestC5StagingCountSurvivesPluginReplacement(t *testing.T) {
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

func TestC6FailedUnmountKeepsTheClaim(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.up(workload("w"))
	r.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Code: codes.Internal, Text: "device is busy"})
	if err := r.svc.Down(r.ctx(), "w"); err == nil || !strings.Contains(err.Error(), "device is busy") {
		t.Errorf("Down answers %v", err)
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

func TestC7UnmountIsRetriedAfterRestart(t *testing.T) {
	r := newRig(t, fake.Config{})
	p := r.plugIn("plug")
	r.up(workload("w"))
	r.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Code: codes.Internal})
	if err := r.svc.Down(r.ctx(), "w"); err == nil {
		t.Fatal("Down succeeds")
	}
	r.stop()
	r.driver.Heal()
	r.start()
	r.supervise(p)
	r.servers.until(t, "released after the restart", func() bool { return r.servers.isReleased("w") })
	if n := r.mounted(); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}

func TestC7ReportIsRetriedAfterRestart(t *testing.T) {
	r := newRig(t, fake.Config{})
	p := r.plugIn("plug")
	r.up(workload("w"))
	r.servers.onReport(func(*api.VolumeUnpublishRequest) error { return fault.New(fault.Unavailable, "no servers") })
	if err := r.svc.Down(r.ctx(), "w"); err == nil {
		t.Fatal("Down succeeds although the servers do not know")
	}
	r.stop()
	r.servers.onReport(nil)
	calls := r.count("NodeUnpublishVolume")
	r.start()
	r.supervise(p)
	r.servers.until(t, "released after the restart", func() bool { return r.servers.isReleased("w") })
	if n := r.count("NodeUnpublishVolume"); n != calls {
		t.Errorf("unpublished %d times more, only to tell the servers", n-calls)
	}
}

func TestC8ClaimWaitEndsWithTheContext(t *testing.T) {
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
			t.Errorf("Up answers %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Up still waits")
	}
	r.down("w")
	if n := len(r.driver.Calls("NodeStageVolume", "NodePublishVolume")); n != 0 {
		t.Errorf("%d calls of a volume that was never claimed", n)
	}
}

func TestC9ClaimErrorsThatPassAreRetried(t *testing.T) {
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

func TestC10RestoredMountIsAdoptedWithoutPluginOrServers(t *testing.T) {
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
	r.healthy()
	r.down("w")
}

func TestC10WaitForAPluginIsBounded(t *testing.T) {
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) { c.PluginWait = 20 * time.Millisecond })
	if _, err := r.svc.Up(r.ctx(), workload("w")); err == nil || !strings.Contains(err.Error(), `no node plugin "p"`) {
		t.Errorf("Up without plugin answers %v", err)
	}
	r.down("w")
}

func TestC11OneSupervisorPerTask(t *testing.T) {
	r := newRig(t, fake.Config{})
	p := r.plugIn("plug")
	for range 3 {
		r.unplug(p)
		r.serve(p, r.driver)
		r.supervise(p)
		r.healthy()
	}
	r.unplug(p)
	n := r.count("Probe")
	r.serve(p, r.driver)
	defer p.stopDriver()
	time.Sleep(3 * r.conf.HealthInterval) // nobody may ask: there is no fact to wait for
	if more := r.count("Probe") - n; more != 0 {
		t.Errorf("%d probes without a supervisor", more)
	}
}

func TestC12DroppingAnotherAllocationKeepsThePlugin(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.down("somebody-else")
	r.up(workload("w"))
	r.down("w")
}

func TestC13ManyPluginsRegisterAtOnce(t *testing.T) {
	var node atomic.Pointer[rig]
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) {
		updated := c.Updated
		c.Updated = func(a, b map[string]*api.CSIInfo) {
			updated(a, b)
			// A consumer that looks back into the room must not find it locked.
			if r := node.Load(); r != nil {
				_, _ = handle(r, context.Background(), wire.ControllerList, &api.ControllerListRequest{ControllerCall: api.ControllerCall{PluginID: "p"}})
			}
		}
	})
	node.Store(r)
	var all []*plug
	for _, id := range []string{"a1", "a2", "a3", "a4", "a5", "a6"} {
		p := r.prepare(id, api.CSIPluginTypeNode)
		r.serve(p, r.driver)
		r.supervise(p)
		all = append(all, p)
	}
	for _, p := range all {
		if e := <-p.events; !strings.HasPrefix(e, api.EventPluginHealthy) {
			t.Errorf("event %q", e)
		}
	}
	for _, p := range all {
		r.unplug(p)
	}
}

func TestC14SlowPluginDoesNotStallOthers(t *testing.T) {
	r := newRig(t, fake.Config{})
	slow := fake.New(fake.Config{Starting: true})
	a, task := pluginAlloc("slow", api.CSIPluginTypeNode)
	task.CSIPluginConfig.ID = "slow"
	pt, err := r.svc.PluginTask(a, task, false)
	if err != nil {
		t.Fatal(err)
	}
	p := &plug{task: pt, events: make(chan string, 10), restarts: make(chan string, 10)}
	r.serve(p, slow)
	r.supervise(p)
	r.plugIn("plug")
	r.up(workload("w"))
	r.down("w")
	p.stopSupervise()
	<-p.supervised
	p.stopDriver()
	<-p.served
}

func TestC16UnhealthyPluginKeepsItsCapabilities(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.driver.Script(fake.Fault{RPC: "Probe", Code: codes.Internal, Text: "storage is away"})
	i := r.node("unhealthy", func(i *api.CSIInfo) bool { return i != nil && !i.Healthy })
	if i.NodeInfo == nil || !i.NodeInfo.RequiresNodeStageVolume || i.NodeInfo.ID != "fake-node" {
		t.Errorf("an unhealthy plugin is %+v with %+v", i, i.NodeInfo)
	}
	if !strings.Contains(i.HealthDescription, "storage is away") {
		t.Errorf("description %q", i.HealthDescription)
	}
}

func TestC17RestartedPluginIsAskedAnew(t *testing.T) {
	r := newRig(t, fake.Config{})
	p := r.plugIn("plug")
	r.unplug(p)
	r.driver.Rename("renamed")
	r.serve(p, r.driver)
	r.supervise(p)
	r.node("asked anew", func(i *api.CSIInfo) bool { return i != nil && i.NodeInfo.ID == "renamed" })
}

func TestC18AgentEndReportsNothing(t *testing.T) {
	r := newRig(t, fake.Config{})
	p := r.plugIn("plug")
	r.mu.Lock()
	n := r.updates
	r.mu.Unlock()
	r.stop()
	r.mu.Lock()
	if r.updates != n || !r.nodes["p"].Healthy {
		t.Errorf("%d updates at the end of the agent: %+v", r.updates-n, r.nodes["p"])
	}
	r.nodes = nil
	r.mu.Unlock()
	r.start()
	first := r.node("known at once after the restart", func(i *api.CSIInfo) bool { return i != nil })
	if !first.Healthy {
		t.Errorf("first report after the restart: %+v", first)
	}
	r.supervise(p)
}

func TestC19HolesInRepliesDoNoHarm(t *testing.T) {
	r := newRig(t, fake.Config{NilEntries: true})
	r.plugIn("plug")
	out, err := handle(r, r.ctx(), wire.ControllerList, &api.ControllerListRequest{ControllerCall: api.ControllerCall{PluginID: "p"}})
	if err != nil || len(out.Volumes) != 1 {
		t.Errorf("list %+v: %v", out, err)
	}
	snaps, err := handle(r, r.ctx(), wire.ControllerSnapshotList, &api.ControllerSnapshotListRequest{ControllerCall: api.ControllerCall{PluginID: "p"}})
	if err != nil || len(snaps.Snapshots) != 0 {
		t.Errorf("snapshots %+v: %v", snaps, err)
	}
}

func TestC20LeftoverStagingIsUnstagedFirst(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.up(workload("w"))
	staging := r.driver.Calls("NodeStageVolume")[0].Path
	r.down("w")
	if err := os.MkdirAll(staging, 0o700); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := mounts.Bind(other, staging, mounts.Flags{}); err != nil {
		t.Fatal(err)
	}
	m := r.up(workload("w2"))["a"]
	if n := r.count("NodeStageVolume"); n != 2 {
		t.Errorf("staged %d times", n)
	}
	got, err := mounts.At(m.Source)
	want, err2 := mounts.Of(filepath.Join(r.dir, "data", "v"))
	if err != nil || err2 != nil || !got.Same(want) {
		t.Errorf("published %+v, want %+v", got, want)
	}
	r.down("w2")
}

func TestC22HungPluginIsRestarted(t *testing.T) {
	r := newRig(t, fake.Config{Starting: true})
	p := r.prepare("plug", api.CSIPluginTypeMonolith)
	a, task := pluginAlloc("plug", api.CSIPluginTypeMonolith)
	task.CSIPluginConfig.HealthTimeout = 100 * time.Millisecond
	var err error
	if p.task, err = r.svc.PluginTask(a, task, false); err != nil {
		t.Fatal(err)
	}
	r.serve(p, r.driver)
	r.supervise(p)
	// Not ready means still starting, however long it takes.
	if err := r.driver.Await(r.ctx(), "Probe", 6); err != nil {
		t.Fatal(err)
	}
	select {
	case reason := <-p.restarts:
		t.Fatalf("a starting plugin was restarted: %s", reason)
	default:
	}
	r.driver.Script(fake.Fault{RPC: "Probe", Code: codes.Internal, Text: "broken"})
	select {
	case reason := <-p.restarts:
		if !strings.Contains(reason, "broken") {
			t.Errorf("reason %q", reason)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a broken plugin was never restarted")
	}
}

func TestC23CleanupDoesNotDescendIntoMounts(t *testing.T) {
	r := newRig(t, fake.Config{})
	p := r.plugIn("plug")
	inside := filepath.Join(r.conf.StateDir, "csi", "plugins", "plug", "mnt")
	data := t.TempDir()
	if err := errors.Join(os.Mkdir(inside, 0o700), os.WriteFile(filepath.Join(data, "precious"), nil, 0o600),
		mounts.Bind(data, inside, mounts.Flags{})); err != nil {
		t.Fatal(err)
	}
	r.unplug(p)
	if _, err := os.Stat(filepath.Join(data, "precious")); err != nil {
		t.Error(err)
	}
	if on, _ := mounts.IsPoint(inside); !on {
		t.Error("the mount was removed")
	}
}

func TestC24DirectoriesAreRemoved(t *testing.T) {
	r := newRig(t, fake.Config{})
	p := r.plugIn("plug")
	r.up(workload("w"))
	r.down("w")
	r.unplug(p)
	for _, dir := range []string{"monolith/p/s", "monolith/p/t", "plugins"} {
		left, err := os.ReadDir(filepath.Join(r.conf.StateDir, "csi", dir))
		if err != nil || len(left) != 0 {
			t.Errorf("%s still has %v: %v", dir, left, err)
		}
	}
}

func TestC25OneStagingPathPerVolume(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.up(workload("w1", &api.VolumeRequest{Source: "v"}))
	r.up(workload("w2", &api.VolumeRequest{Source: "v", ReadOnly: true}))
	if n := r.count("NodeStageVolume"); n != 1 {
		t.Errorf("staged %d times", n)
	}
	r.down("w1")
	r.down("w2")
}

func TestC26UnstageAndMountDoNotMix(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	var all sync.WaitGroup
	for _, id := range []string{"w1", "w2", "w3"} {
		all.Go(func() {
			for range 5 {
				if _, err := r.svc.Up(r.ctx(), workload(id)); err != nil {
					t.Error(err)
				}
				if err := r.svc.Down(r.ctx(), id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait() // the driver's rules are checked at the end of the test
	if n := r.mounted(); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}

func TestC28CrashInTheMiddleLeavesNoMount(t *testing.T) {
	for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume"} {
		t.Run(rpc, func(t *testing.T) {
			r := newRig(t, fake.Config{})
			p := r.plugIn("plug")
			// The call has its effect, and the agent dies before it hears of it.
			r.driver.Script(fake.Fault{RPC: rpc, Late: true, Hang: true})
			ctx, die := context.WithCancel(r.ctx())
			done := make(chan struct{})
			go func() { defer close(done); _, _ = r.svc.Up(ctx, workload("w")) }()
			if err := r.driver.Await(r.ctx(), rpc, 1); err != nil {
				t.Fatal(err)
			}
			die()
			<-done
			r.stop()
			r.driver.Heal()
			r.start()
			r.supervise(p)
			r.svc.Restored(map[string]bool{"plug": true})
			r.servers.until(t, "released", func() bool { return r.servers.isReleased("w") })
			if n := r.mounted(); n != 0 {
				t.Errorf("%d mounts are left", n)
			}
			if u := r.driver.Storage().Use("v"); len(u.Staged)+len(u.Published) != 0 {
				t.Errorf("the driver still has %+v", u)
			}
		})
	}
}

func TestC30NeverMountedVolumeAsksNoPlugin(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.servers.onClaim(func(context.Context, *api.VolumeClaimRequest, *api.VolumeClaimResponse) error {
		return fault.New(fault.Conflict, "somebody has it")
	})
	if _, err := r.svc.Up(r.ctx(), workload("w")); !errors.Is(err, fault.Conflict) {
		t.Errorf("Up answers %v", err)
	}
	r.down("w") // without any plugin
	if left, _ := r.journal.All(); len(left) != 0 {
		t.Errorf("the journal still has %v", left)
	}
}

func TestC31LongSocketPathIsRefusedClearly(t *testing.T) {
	conf := volumes.Config{StateDir: "/" + strings.Repeat("long/", 20), NodeID: func() string { return "n" }, Servers: newServers(),
		Journal: &bucket{}, Registry: &bucket{}}
	s, err := volumes.New(conf)
	if err != nil {
		t.Fatal(err)
	}
	a, task := pluginAlloc("plug", api.CSIPluginTypeNode)
	if _, err := s.PluginTask(a, task, false); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "shorter data directory") {
		t.Errorf("the error is %v", err)
	}
}

func TestC34StoppedPluginDisappears(t *testing.T) {
	r := newRig(t, fake.Config{})
	p := r.plugIn("plug")
	r.unplug(p)
	r.node("unhealthy while its task may come back", func(i *api.CSIInfo) bool { return i != nil && !i.Healthy })
	r.down("plug")
	r.node("gone with its allocation", func(i *api.CSIInfo) bool { return i == nil })
	if left, _ := r.registry.All(); len(left) != 0 {
		t.Errorf("the registry still has %v", left)
	}
}

func TestC35ForgottenAllocationIsTakenDown(t *testing.T) {
	r := newRig(t, fake.Config{})
	p := r.plugIn("plug")
	r.up(workload("w"))
	r.restart()
	r.supervise(p)
	r.svc.Restored(map[string]bool{"plug": true})
	r.servers.until(t, "released", func() bool { return r.servers.isReleased("w") })
	if n := r.mounted(); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}

func TestC15WaiterOfAVanishedPluginEnds(t *testing.T) {
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) { c.PluginWait = 200 * time.Millisecond })
	p := r.plugIn("plug")
	r.unplug(p)
	done := make(chan error, 1)
	go func() { _, err := r.svc.Up(r.ctx(), workload("w")); done <- err }()
	r.servers.until(t, "claimed", func() bool { return r.servers.claims == 1 })
	r.down("plug")
	select {
	case err := <-done:
		if err == nil {
			t.Error("mounted without a plugin")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Up still waits")
	}
	r.down("w")
}

func TestC29EmptyClaimReplyIsAnError(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
		*out = api.VolumeClaimResponse{}
		return nil
	})
	if _, err := r.svc.Up(r.ctx(), workload("w")); !errors.Is(err, fault.Internal) {
		t.Errorf("Up answers %v", err)
	}
	r.down("w")
}

func TestC34StoppedPluginExpires(t *testing.T) {
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) { c.PluginGrace = 20 * time.Millisecond })
	p := r.plugIn("plug")
	r.unplug(p)
	r.node("gone although nobody says that its allocation is over", func(i *api.CSIInfo) bool { return i == nil })
	r.serve(p, r.driver)
	r.supervise(p)
	r.healthy()
}
