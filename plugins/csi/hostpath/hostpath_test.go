package hostpath_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/hostpath"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

func calls(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func caps(a api.AttachmentMode) []*api.VolumeCapability {
	return []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: a}}
}

func create(t *testing.T, cl *csi.Client, r api.ControllerCreateRequest) *api.ControllerCreateResponse {
	t.Helper()
	v, err := cl.CreateVolume(calls(t), &r)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// rig is one node of a driver with a place to mount.
type rig struct {
	t       *testing.T
	cl      *csi.Client
	staging string
	target  string
}

func newRig(t *testing.T, cl *csi.Client) *rig {
	dir := t.TempDir()
	r := &rig{t, cl, filepath.Join(dir, "staging"), filepath.Join(dir, "target")}
	if err := os.Mkdir(r.staging, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, p := range []string{r.target, r.staging} {
			if err := mounts.Unmount(p); err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

func (r *rig) volume(id string, mode api.AttachmentMode) *csi.NodeVolume {
	return &csi.NodeVolume{
		ExternalID: id, StagingPath: r.staging, TargetPath: r.target,
		AccessMode: api.AccessSingleNodeWriter, AttachmentMode: mode,
	}
}

func (r *rig) up(v *csi.NodeVolume) {
	r.t.Helper()
	for range 2 { // each call may be repeated
		if err := r.cl.NodeStage(calls(r.t), v); err != nil {
			r.t.Fatal(err)
		}
	}
	for range 2 {
		if err := r.cl.NodePublish(calls(r.t), v); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) down(id string) {
	r.t.Helper()
	for range 2 {
		if err := r.cl.NodeUnpublish(calls(r.t), id, r.target); err != nil {
			r.t.Fatal(err)
		}
	}
	for range 2 {
		if err := r.cl.NodeUnstage(calls(r.t), id, r.staging); err != nil {
			r.t.Fatal(err)
		}
	}
}

func TestDataSurvivesDriverAndCopies(t *testing.T) {
	state := t.TempDir()
	socket := start(t, hostpath.Config{StateDir: state})
	cl := client(t, socket)
	v := create(t, cl, api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem), CapacityMinBytes: 1 << 20})
	r := newRig(t, cl)
	r.up(r.volume(v.ExternalID, api.AttachmentFileSystem))
	if err := os.WriteFile(filepath.Join(r.target, "f"), []byte("data"), 0o640); err != nil {
		t.Fatal(err)
	}
	snap, err := cl.CreateSnapshot(calls(t), &api.ControllerSnapshotRequest{ExternalID: v.ExternalID, Name: "s"})
	if err != nil || !snap.IsReady {
		t.Fatalf("snapshot %+v: %v", snap, err)
	}
	r.down(v.ExternalID)

	second := client(t, start(t, hostpath.Config{StateDir: state, NodeID: "n2"}))
	for name, req := range map[string]api.ControllerCreateRequest{
		"restored": {SnapshotID: snap.ID}, "cloned": {CloneID: v.ExternalID},
	} {
		req.Name, req.Capabilities = name, caps(api.AttachmentFileSystem)
		copied := create(t, second, req)
		r := newRig(t, second)
		r.up(r.volume(copied.ExternalID, api.AttachmentFileSystem))
		if b, err := os.ReadFile(filepath.Join(r.target, "f")); err != nil || string(b) != "data" {
			t.Errorf("%s volume has %q: %v", name, b, err)
		}
		r.down(copied.ExternalID)
	}
}

func TestReadOnlyPublishRefusesWrites(t *testing.T) {
	cl := client(t, start(t, hostpath.Config{StateDir: t.TempDir()}))
	v := create(t, cl, api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem)})
	r := newRig(t, cl)
	nv := r.volume(v.ExternalID, api.AttachmentFileSystem)
	nv.ReadOnly = true
	r.up(nv)
	if err := os.WriteFile(filepath.Join(r.target, "f"), nil, 0o600); err == nil {
		t.Error("wrote to a read-only volume")
	}
	nv.ReadOnly = false
	if err := cl.NodePublish(calls(t), nv); !errors.Is(err, fault.Conflict) {
		t.Errorf("publishing at the same target in another way: %v", err)
	}
	r.down(v.ExternalID)
}

func TestBlockVolumeIsADeviceAndGrows(t *testing.T) {
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("no loop devices here")
	}
	cl := client(t, start(t, hostpath.Config{StateDir: t.TempDir()}))
	v := create(t, cl, api.ControllerCreateRequest{Name: "b", Capabilities: caps(api.AttachmentBlock), CapacityMinBytes: 1 << 20})
	r := newRig(t, cl)
	nv := r.volume(v.ExternalID, api.AttachmentBlock)
	r.up(nv)
	i, err := os.Stat(r.target)
	if err != nil || i.Mode()&os.ModeDevice == 0 {
		t.Fatalf("target is %v: %v", i, err)
	}
	if err := os.WriteFile(r.target, []byte("raw"), 0); err != nil {
		t.Fatal(err)
	}
	grown, err := cl.ControllerExpand(calls(t), &api.ControllerExpandRequest{ExternalID: v.ExternalID, CapacityMinBytes: 3 << 20})
	if err != nil || !grown.NodeExpansionRequired {
		t.Fatalf("expanded to %+v: %v", grown, err)
	}
	if n, err := cl.NodeExpand(calls(t), nv, 3<<20); err != nil || n != 3<<20 {
		t.Fatalf("node expanded to %d: %v", n, err)
	}
	f, err := os.Open(r.target)
	if err != nil {
		t.Fatal(err)
	}
	end, err := f.Seek(0, 2)
	f.Close()
	if err != nil || end != 3<<20 {
		t.Errorf("device has %d bytes: %v", end, err)
	}
	r.down(v.ExternalID)
	if err := cl.DeleteVolume(calls(t), &api.ControllerDeleteRequest{ExternalID: v.ExternalID}); err != nil {
		t.Error(err)
	}
}

func TestDoubleAttachIsRefusedAndLogged(t *testing.T) {
	state := t.TempDir()
	one := client(t, start(t, hostpath.Config{StateDir: state, Attach: true, NodeID: "n1"}))
	client(t, start(t, hostpath.Config{StateDir: state, Attach: true, NodeID: "n2", Mode: "node"}))
	v := create(t, one, api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem)})
	attach := func(node string) error {
		_, err := one.ControllerPublish(calls(t), &api.ControllerPublishRequest{
			ExternalID: v.ExternalID, ProviderNodeID: node,
			AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem,
		})
		return err
	}
	if err := attach("n1"); err != nil {
		t.Fatal(err)
	}
	if err := attach("n2"); !errors.Is(err, fault.Conflict) || csi.VerdictOf(err) != fault.VerdictRetry {
		t.Errorf("second attachment: %v", err)
	}
	log, err := hostpath.Violations(state)
	if err != nil || len(log) != 1 || log[0].Kind != hostpath.ViolationDoubleAttach || log[0].Node != "n2" {
		t.Errorf("violation log %+v: %v", log, err)
	}
	if err := one.ControllerUnpublish(calls(t), &api.ControllerUnpublishRequest{ExternalID: v.ExternalID, ProviderNodeID: "n1"}); err != nil {
		t.Fatal(err)
	}
	if err := attach("n2"); err != nil {
		t.Errorf("attachment after detaching: %v", err)
	}
}

func TestStagingNeedsAttachment(t *testing.T) {
	state := t.TempDir()
	cl := client(t, start(t, hostpath.Config{StateDir: state, Attach: true}))
	v := create(t, cl, api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem)})
	r := newRig(t, cl)
	if err := cl.NodeStage(calls(t), r.volume(v.ExternalID, api.AttachmentFileSystem)); !errors.Is(err, fault.Conflict) {
		t.Errorf("staged without attachment: %v", err)
	}
	if log, _ := hostpath.Violations(state); len(log) != 1 {
		t.Errorf("violation log %+v", log)
	}
}

func TestUnstageUnderPublishedTargetIsRefused(t *testing.T) {
	state := t.TempDir()
	cl := client(t, start(t, hostpath.Config{StateDir: state}))
	v := create(t, cl, api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem)})
	r := newRig(t, cl)
	r.up(r.volume(v.ExternalID, api.AttachmentFileSystem))
	if err := cl.NodeUnstage(calls(t), v.ExternalID, r.staging); err == nil {
		t.Error("unstaged a published volume")
	}
	r.down(v.ExternalID)
}

func TestCapacityLimit(t *testing.T) {
	cl := client(t, start(t, hostpath.Config{StateDir: t.TempDir(), CapacityBytes: 3 << 20}))
	make := func(name string, size int64) error {
		_, err := cl.CreateVolume(calls(t), &api.ControllerCreateRequest{Name: name, CapacityMinBytes: size, Capabilities: caps(api.AttachmentFileSystem)})
		return err
	}
	if err := make("a", 2<<20); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{2 << 20, math.MaxInt64} {
		if err := make("b", size); !errors.Is(err, fault.Invalid) {
			t.Errorf("volume of %d bytes above the capacity: %v", size, err)
		}
	}
	if free, err := cl.Capacity(calls(t), nil, nil); err != nil || free != 1<<20 {
		t.Errorf("free capacity %d: %v", free, err)
	}
}

func TestTopologyIsKept(t *testing.T) {
	cl := client(t, start(t, hostpath.Config{StateDir: t.TempDir(), Topology: map[string]string{"zone": "a"}}))
	v := create(t, cl, api.ControllerCreateRequest{
		Name: "a", Capabilities: caps(api.AttachmentFileSystem),
		Topologies: &api.TopologyRequest{Required: []*api.Topology{{Segments: map[string]string{"zone": "b"}}}},
	})
	if len(v.Topologies) != 1 || v.Topologies[0].Segments["zone"] != "b" {
		t.Errorf("topologies %+v", v.Topologies)
	}
	got, err := cl.Fingerprint(calls(t), csi.Services{Controller: true, Node: true})
	if err != nil || !got.Identity.Topology || got.Node.AccessibleTopology.Segments["zone"] != "a" {
		t.Errorf("fingerprint %+v: %v", got, err)
	}
}

func TestBadConfig(t *testing.T) {
	for name, c := range map[string]hostpath.Config{
		"no endpoint":   {StateDir: "/tmp/x"},
		"no state":      {Endpoint: "unix:///tmp/x.sock"},
		"bad mode":      {Endpoint: "unix:///tmp/x.sock", StateDir: "/tmp/x", Mode: "both"},
		"tcp endpoint":  {Endpoint: "tcp://127.0.0.1:1", StateDir: "/tmp/x"},
		"bad node id":   {Endpoint: "unix:///tmp/x.sock", StateDir: "/tmp/x", NodeID: "../x"},
		"negative size": {Endpoint: "unix:///tmp/x.sock", StateDir: "/tmp/x", CapacityBytes: -1},
	} {
		t.Setenv("CSI_ENDPOINT", "")
		if err := hostpath.Run(t.Context(), c); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCallsNeedThePassword(t *testing.T) {
	cl := client(t, start(t, hostpath.Config{StateDir: t.TempDir(), Password: "right"}))
	for password, want := range map[string]bool{"": false, "wrong": false, "right": true} {
		secrets := map[string]string{"password": password}
		_, err := cl.CreateVolume(calls(t), &api.ControllerCreateRequest{Name: "v", Capabilities: caps(api.AttachmentFileSystem), Secrets: secrets})
		if (err == nil) != want {
			t.Errorf("create with %q: %v", password, err)
		}
		if err == nil {
			continue
		}
		if _, err := cl.ListVolumes(calls(t), &api.ControllerListRequest{}); err != nil {
			t.Error(err)
		}
	}
}
