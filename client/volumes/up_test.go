package volumes_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

func TestUpMountsAndDownFrees(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	m := r.up(workload("w"))["a"]
	if err := os.WriteFile(filepath.Join(m.Source, "f"), []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "data", "v", "f")); err != nil {
		t.Error(err)
	}
	r.down("w")
	if n := r.mounted(); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
	r.servers.until(t, "released", func() bool { return r.servers.isReleased("w") })
	if left, _ := r.journal.All(); len(left) != 0 {
		t.Errorf("the journal still has %v", left)
	}
}

func TestPerAllocSourceHasTheIndex(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.driver.Storage().Add("v[0]")
	r.plugIn("plug")
	r.up(workload("w", &api.VolumeRequest{Source: "v", PerAlloc: true}))
	if c := r.driver.Calls("NodePublishVolume"); len(c) != 1 || c[0].Volume != "v[0]" {
		t.Errorf("calls %+v", c)
	}
	r.down("w")
}

func TestReadOnlyRequestIsReadOnlyOnDisk(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	m := r.up(workload("w", &api.VolumeRequest{Source: "v", ReadOnly: true}))["a"]
	if !m.ReadOnly {
		t.Error("the mount is not marked read-only")
	}
	if err := os.WriteFile(filepath.Join(m.Source, "f"), nil, 0o600); err == nil {
		t.Error("wrote to a read-only volume")
	}
	r.down("w")
}

func TestFinalErrorFailsAtOnceWithTheDriversText(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.driver.Script(fake.Fault{RPC: "NodeStageVolume", Code: codes.InvalidArgument, Text: "no such file system"})
	_, err := r.svc.Up(r.ctx(), workload("w"))
	if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "no such file system") {
		t.Errorf("the error is %v", err)
	}
	if n := r.count("NodeStageVolume"); n != 1 {
		t.Errorf("%d tries of a final error", n)
	}
	r.driver.Heal()
	r.down("w")
}

func TestPublishWithoutMountIsNotBelieved(t *testing.T) {
	r := newRig(t, fake.Config{NoMountAtTarget: true})
	r.plugIn("plug")
	ctx, cancel := context.WithCancel(r.ctx())
	go func() { _ = r.driver.Await(ctx, "NodePublishVolume", 2); cancel() }()
	if _, err := r.svc.Up(ctx, workload("w")); err == nil {
		t.Error("Up believes a plugin that mounted nothing")
	}
	r.down("w")
}

func TestPathsAreShort(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.driver.Storage().Add(strings.Repeat("x", 120))
	r.plugIn("plug")
	r.up(workload("w", &api.VolumeRequest{Source: strings.Repeat("x", 120)}))
	base := filepath.Join(r.conf.StateDir, "csi", "monolith", "p")
	for _, c := range r.driver.Calls("NodeStageVolume", "NodePublishVolume") {
		if rel, err := filepath.Rel(base, c.Path); err != nil || len(rel) > 30 {
			t.Errorf("%s uses %q", c.RPC, c.Path)
		}
	}
	r.down("w")
}

func TestRequestOptionsReplaceTheVolumes(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
		out.Volume.MountOptions = &api.MountOptions{FSType: "ext4", MountFlags: []string{"noatime"}}
		return nil
	})
	r.up(workload("w", &api.VolumeRequest{Source: "v", MountOptions: &api.MountOptions{MountFlags: []string{"ro"}}}))
	text := ""
	for _, c := range r.driver.Calls("NodeStageVolume") {
		text = c.Request.(interface{ String() string }).String()
	}
	if !strings.Contains(text, "ext4") || strings.Contains(text, "noatime") || !strings.Contains(text, `"ro"`) {
		t.Errorf("staged with %s", text)
	}
	r.down("w")
}

// A task that starts once the mount has gone would write to the directory below it, on the node's own disk.
func TestVolumeWhoseMountHasGoneIsNotMounted(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := ""
		for _, m := range v.up(workload("w")) {
			at = m.Source
		}
		if err := v.svc.Mounted("w"); err != nil {
			t.Errorf("it is mounted: %v", err)
		}
		if err := v.svc.Mounted("other"); err != nil {
			t.Errorf("an allocation without volumes: %v", err)
		}
		if err := v.host.Unmount(at); err != nil {
			t.Fatal(err)
		}
		if err := v.svc.Mounted("w"); !errors.Is(err, fault.Unavailable) {
			t.Errorf("its mount has gone: %v", err)
		}
		v.down("w")
	})
}

// While the servers are asked again it is they who are waited for, not the plugin: one of two silences that begin at the
// same moment is told, and always the same one.
func TestOneSilenceIsToldWhileTheServersAreAskedAgain(t *testing.T) {
	for range 10 {
		inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
			asked := 0
			v.servers.onClaim(func(ctx context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
				out.Claim.Lease, out.Claim.WriteBack = leaseTerm, leaseWriteBack
				if asked++; asked == 2 {
					time.Sleep(5 * time.Second)
				}
				return nil
			})
			v.stop()
			v.conf.Promise = func() error {
				if asked == 1 {
					v.svc.Mounts() // the node registers beside it
				}
				return nil
			}
			v.start()
			v.up(workload("w"))
			if n := v.users.count(`Waiting w v Volume "v": claim: the servers have not responded yet`); asked != 2 || n != 1 {
				t.Errorf("the servers were asked %d times; said was %q", asked, v.users.said)
			}
			v.down("w")
			v.clean()
		})
	}
}

// A volume that was deregistered by force and registered anew as another one of the provider's: what the first one has
// mounted must neither be taken for it, nor be forgotten.
func TestMountOfAnotherExternalVolumeIsNotTakenForThisOne(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.driver.Storage().Add("w")
		asked := 0
		v.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
			if asked++; asked > 1 {
				out.Claim.ExternalID = "w"
			} else {
				v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Code: codes.Unavailable, Late: true})
			}
			return nil
		})
		done := make(chan error, 1)
		go func() { _, err := v.svc.Up(t.Context(), workload("a")); done <- err }()
		v.until("it is published once", func() bool { return v.count("NodePublishVolume") == 1 })
		v.svc.Mounts() // the node registers, and the claim is asked for again
		if err := <-done; !errors.Is(err, fault.Conflict) {
			t.Errorf("the mount ends with %v", err)
		}
		if u := v.driver.Storage().Use("w"); len(u.Staged)+len(u.Published) > 0 {
			t.Errorf("the other volume is used: %+v", u)
		}
		v.down("a")
		v.clean()
	})
}

// A mount that is given up while it waits for its turn answers the error, and mounts nothing later.
func TestCancelledMountIsNeverSuccess(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.driver.Script(fake.Fault{RPC: "NodeStageVolume", Times: 1, Hang: true})
	first, giveUp := context.WithCancel(r.ctx())
	var up sync.WaitGroup
	up.Go(func() { _, _ = r.svc.Up(first, workload("w1")) })
	if err := r.driver.Await(r.ctx(), "NodeStageVolume", 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.ctx(), 50*time.Millisecond)
	defer cancel()
	got, err := r.svc.Up(ctx, workload("w2"))
	if !errors.Is(err, context.DeadlineExceeded) || got != nil {
		t.Errorf("a mount that was given up answers %v, %v", got, err)
	}
	giveUp()
	up.Wait()
	r.down("w1")
	r.down("w2")
	if n := r.count("NodePublishVolume"); n != 0 {
		t.Errorf("published %d times after both gave up", n)
	}
}

// Agents that are stopped and started again report no plugin as unhealthy.
// A plugin goes on with a call although the agent that made it has died: what that mounts is taken down too.
func TestCallOfADeadAgentThatEndsLateLeavesNoMount(t *testing.T) {
	inVirtualTime(t, fake.Config{Deaf: true, NoStage: true}, func(t *testing.T, v *virtual) {
		v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Delay: time.Second})
		ctx, die := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _, _ = v.svc.Up(ctx, workload("w")) }()
		v.until("it is being mounted", func() bool { return v.count("NodePublishVolume") == 1 })
		die()
		<-done
		v.driver.Storage().Excuse("fake-node", true)
		v.stop()
		v.start()
		v.knows()
		v.untilReleased("w")
		time.Sleep(time.Minute)
		v.clean()
	})
}

func TestAgentRestartReportsNoUnhealthyPlugin(t *testing.T) {
	var mu sync.Mutex
	watching, unhealthy := false, 0
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) {
		tell := c.Updated
		c.Updated = func(controllers, nodes map[string]*api.CSIInfo) {
			mu.Lock()
			if watching && (nodes["p"] == nil || !nodes["p"].Healthy || controllers["p"] == nil || !controllers["p"].Healthy) {
				unhealthy++
			}
			mu.Unlock()
			tell(controllers, nodes)
		}
	})
	p := r.plugIn("plug")
	r.healthy()
	r.up(workload("w"))
	mu.Lock()
	watching = true
	mu.Unlock()
	for range 3 {
		r.restart()
		r.healthy()
		r.supervise(p)
		if err := r.driver.Await(r.ctx(), "Probe", len(r.driver.Calls("Probe"))+2); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if unhealthy != 0 {
		t.Errorf("%d reports of an unhealthy plugin", unhealthy)
	}
	watching = false
	r.down("w")
}
