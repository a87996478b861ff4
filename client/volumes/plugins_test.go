package volumes_test

import (
	"context"
	"errors"
	"net"
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
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

func TestOneSupervisorPerTask(t *testing.T) {
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

func TestManyPluginsRegisterAtOnce(t *testing.T) {
	var node atomic.Pointer[rig]
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) {
		updated := c.Updated
		c.Updated = func(a, b map[string]*api.CSIInfo) {
			updated(a, b)
			// A consumer that asks the service must not find it locked.
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

func TestSlowPluginDoesNotStallOthers(t *testing.T) {
	r := newRig(t, fake.Config{})
	slow := fake.New(fake.Config{Starting: true})
	a, task := pluginAlloc("slow", api.CSIPluginTypeNode)
	task.CSIPluginConfig.ID = "slow"
	pt, err := r.svc.Plugins().Task(a, task, false)
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

func TestUnhealthyPluginKeepsItsCapabilities(t *testing.T) {
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

func TestRestartedPluginIsAskedAnew(t *testing.T) {
	r := newRig(t, fake.Config{})
	p := r.plugIn("plug")
	r.unplug(p)
	r.driver.Rename("renamed")
	r.serve(p, r.driver)
	r.supervise(p)
	r.node("asked anew", func(i *api.CSIInfo) bool { return i != nil && i.NodeInfo.ID == "renamed" })
}

func TestAgentEndReportsNothing(t *testing.T) {
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

func TestHolesInRepliesDoNoHarm(t *testing.T) {
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

func TestLeftoverStagingIsUnstagedFirst(t *testing.T) {
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

func TestHungPluginIsRestarted(t *testing.T) {
	r := newRig(t, fake.Config{Starting: true})
	p := r.prepare("plug", api.CSIPluginTypeMonolith)
	a, task := pluginAlloc("plug", api.CSIPluginTypeMonolith)
	task.CSIPluginConfig.HealthTimeout = 100 * time.Millisecond
	var err error
	if p.task, err = r.svc.Plugins().Task(a, task, false); err != nil {
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
	case <-time.After(30 * time.Second):
		t.Fatal("a broken plugin was never restarted")
	}
}

func TestCleanupDoesNotDescendIntoMounts(t *testing.T) {
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

func TestUnstageAndMountDoNotMix(t *testing.T) {
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

func TestNeverMountedVolumeAsksNoPlugin(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.servers.onClaim(func(context.Context, *api.VolumeClaimRequest, *api.VolumeClaimResponse) error {
		return fault.New(fault.Conflict, "somebody has it")
	})
	if _, err := r.svc.Up(r.ctx(), workload("w")); !errors.Is(err, fault.Conflict) {
		t.Errorf("Up returns %v", err)
	}
	r.down("w") // without any plugin
	if left, _ := r.journal.All(); len(left) != 0 {
		t.Errorf("the journal still has %v", left)
	}
}

func TestLongSocketPathIsRefusedClearly(t *testing.T) {
	conf := volumes.Config{
		StateDir: "/" + strings.Repeat("long/", 20), NodeID: func() string { return "n" }, Servers: newServers(),
		Journal: &bucket{}, Registry: &bucket{},
	}
	s, err := volumes.New(conf)
	if err != nil {
		t.Fatal(err)
	}
	a, task := pluginAlloc("plug", api.CSIPluginTypeNode)
	if _, err := s.Plugins().Task(a, task, false); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "shorter data directory") {
		t.Errorf("the error is %v", err)
	}
}

func TestStoppedPluginDisappears(t *testing.T) {
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

func TestForgottenAllocationIsTakenDown(t *testing.T) {
	r := newRig(t, fake.Config{})
	p := r.plugIn("plug")
	r.up(workload("w"))
	r.restart()
	r.supervise(p)
	r.restored(pluginOf("plug"))
	r.servers.until(t, "released", func() bool { return r.servers.isReleased("w") })
	if n := r.mounted(); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}

func TestWaiterOfAVanishedPluginEnds(t *testing.T) {
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
	case <-time.After(30 * time.Second):
		t.Fatal("Up still waits")
	}
	r.down("w")
}

func TestEmptyClaimReplyIsAnError(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
		*out = api.VolumeClaimResponse{}
		return nil
	})
	if _, err := r.svc.Up(r.ctx(), workload("w")); !errors.Is(err, fault.Internal) {
		t.Errorf("Up returns %v", err)
	}
	r.down("w")
}

func TestStoppedPluginExpires(t *testing.T) {
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) { c.PluginGrace = 20 * time.Millisecond })
	p := r.plugIn("plug")
	r.unplug(p)
	r.node("gone although nobody says that its allocation is over", func(i *api.CSIInfo) bool { return i == nil })
	r.serve(p, r.driver)
	r.supervise(p)
	r.healthy()
}

// What somebody puts in the place of a plugin's socket makes the plugin unhealthy: mounts wait, and go on when it is back.
func TestMountWaitsWhileThePluginsSocketIsSomethingElse(t *testing.T) {
	for name, put := range map[string]func(*testing.T, string) error{
		"a file":             func(_ *testing.T, p string) error { return os.WriteFile(p, []byte("no socket"), 0o600) },
		"a directory":        func(_ *testing.T, p string) error { return os.Mkdir(p, 0o700) },
		"a link to nowhere":  func(_ *testing.T, p string) error { return os.Symlink("/nowhere", p) },
		"a link to itself":   func(_ *testing.T, p string) error { return os.Symlink(p, p) },
		"a link to a device": func(_ *testing.T, p string) error { return os.Symlink("/dev/zero", p) },
		"somebody who never answers": func(t *testing.T, p string) error {
			l, err := net.Listen("unix", p)
			if err == nil {
				l.(*net.UnixListener).SetUnlinkOnClose(false)
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fake.Config{})
			r.plugIn("p1")
			found, err := filepath.Glob(filepath.Join(r.dir, "client", "*", "plugins", "*", "csi.sock"))
			if more, _ := filepath.Glob(filepath.Join(r.dir, "client", "plugins", "*", "csi.sock")); err != nil || len(found)+len(more) != 1 {
				t.Fatalf("sockets %q %q: %v", found, more, err)
			} else {
				found = append(found, more...)
			}
			r.stop() // with its connection
			if err := os.Rename(found[0], found[0]+".away"); err != nil {
				t.Fatal(err)
			}
			if err := put(t, found[0]); err != nil {
				t.Fatal(err)
			}
			r.start()
			r.supervise(r.plug)
			up := make(chan error, 1)
			go func() { _, err := r.svc.Up(r.ctx(), workload("w")); up <- err }()
			r.node("unhealthy", func(i *api.CSIInfo) bool { return i != nil && !i.Healthy && i.HealthDescription != "" })
			if err := os.RemoveAll(found[0]); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(found[0]+".away", found[0]); err != nil {
				t.Fatal(err)
			}
			if err := <-up; err != nil {
				t.Errorf("mount: %v", err)
			}
			if err := r.svc.Down(r.ctx(), workload("w").ID); err != nil {
				t.Errorf("unmount: %v", err)
			}
		})
	}
}
