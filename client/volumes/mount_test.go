package volumes_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
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

func TestUpOfAllocationWithoutVolumes(t *testing.T) {
	r := newRig(t, fake.Config{})
	a := workload("w")
	a.Job.TaskGroups[0].Volumes = map[string]*api.VolumeRequest{"h": {Type: "host", Source: "x"}}
	if m, err := r.svc.Up(r.ctx(), a); err != nil || len(m) != 0 {
		t.Errorf("mounts %v: %v", m, err)
	}
	r.down("w")
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

func TestLateSuccessIsRepeatedWithTheSameFields(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Code: codes.DeadlineExceeded, Late: true})
	r.up(workload("w"))
	if c := r.driver.Calls("NodePublishVolume"); len(c) != 2 || c[0].Path != c[1].Path {
		t.Errorf("calls %+v", c)
	}
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

func TestMultipleVolumesOfOneAllocation(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.driver.Storage().Add("second")
	r.plugIn("plug")
	m := r.up(workload("w", &api.VolumeRequest{Source: "v"}, &api.VolumeRequest{Source: "second"}, &api.VolumeRequest{Source: "v", ReadOnly: true}))
	if len(m) != 3 || m["a"].Source != m["c"].Source || m["a"].Source == m["b"].Source || m["a"].ReadOnly || !m["c"].ReadOnly {
		t.Errorf("mounts %+v", m)
	}
	r.down("w")
	if n := r.mounted(); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
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
