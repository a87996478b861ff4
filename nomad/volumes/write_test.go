package volumes_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func TestRegisterTellsAllErrorsAtOnce(t *testing.T) {
	r := newRig(t)
	_, err := r.Service.Register(t.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{{
		ID: "../etc", Namespace: "nowhere", SnapshotID: "s", CloneID: "c", RequestedCapacityMin: 2, RequestedCapacityMax: 1,
	}, volumestest.Spec("v")}})
	if !errors.Is(err, fault.Invalid) {
		t.Fatalf("error is %v", err)
	}
	for _, want := range []string{"volume ID", "missing plugin ID", "clone_id and snapshot_id", "capability", "capacity_min", `namespace "nowhere"`, "no CSI plugin named: p"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestNegativeCapacityIsRefused(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	for _, limits := range [][2]int64{{-1, 0}, {0, -1}, {-2, -1}} {
		s := volumestest.Spec("v")
		s.RequestedCapacityMin, s.RequestedCapacityMax = limits[0], limits[1]
		_, registered := r.Service.Register(t.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{s}})
		_, created := r.Service.Create(t.Context(), &api.VolumeCreateRequest{Volumes: []*api.VolumeSpec{s}})
		for _, err := range []error{registered, created} {
			if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "must not be negative") {
				t.Errorf("capacity %v: %v", limits, err)
			}
		}
	}
}

func TestIDsThatEscapeAreRefused(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	for _, id := range []string{"", "a/b", "..", "a..b", "a b", "ä", "a\x00", strings.Repeat("a", 129)} {
		if _, err := r.Service.Register(t.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{volumestest.Spec(id)}}); !errors.Is(err, fault.Invalid) {
			t.Errorf("id %q: %v", id, err)
		}
	}
	r.Register(volumestest.Spec("a-b_c.d[3]"))
}

func TestRegisterAsksTheController(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	n.Says("Controller.Validate", codes.InvalidArgument, "no such mode")
	_, err := r.Service.Register(t.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{volumestest.Spec("v")}})
	if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "no such mode") {
		t.Fatalf("error is %v", err)
	}
	r.Change("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].Healthy = false })
	_, err = r.Service.Register(t.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{volumestest.Spec("v")}})
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no healthy controller") {
		t.Fatalf("error is %v", err)
	}
}

func TestTimesAreSet(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	first := r.Get("v")
	if first.CreateTime == 0 || first.ModifyTime == 0 {
		t.Fatalf("times are %d, %d", first.CreateTime, first.ModifyTime)
	}
	r.Register(volumestest.Spec("v"))
	if second := r.Get("v"); second.CreateTime != first.CreateTime || second.ModifyTime <= first.ModifyTime {
		t.Fatalf("times are %d, %d after %d", second.CreateTime, second.ModifyTime, first.ModifyTime)
	}
}

func TestPartialSuccessIsTold(t *testing.T) {
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	n.On("Controller.Create", func(_ context.Context, req any) error {
		if req.(*api.ControllerCreateRequest).Name == "v2" {
			return volumestest.Says("Controller.Create", codes.ResourceExhausted, "pool is full")
		}
		return nil
	})
	err := r.Create(volumestest.Made("v1"), volumestest.Made("v2"))
	if !errors.Is(err, fault.Exhausted) || !strings.Contains(err.Error(), "pool is full") || !strings.Contains(err.Error(), `"v1"`) {
		t.Fatalf("error is %v", err)
	}
	if d := r.Get("v2"); d.State != api.VolumeFailed || d.Schedulable || !strings.Contains(d.LastError, "pool is full") {
		t.Fatalf("the failed volume shows %+v", d)
	}
	n.On("Controller.Create", nil)
	if err := r.Create(volumestest.Made("v1"), volumestest.Made("v2")); err != nil {
		t.Fatal(err)
	}
}

func TestTopologiesAreWhole(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	n.Created = api.ControllerCreateResponse{ExternalID: "x", Topologies: []*api.Topology{nil, {Segments: map[string]string{"zone": "a"}}, {}}}
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	if d := r.Get("v"); len(d.Topologies) != 1 || d.Topologies[0].Segments["zone"] != "a" {
		t.Fatalf("topologies are %v", d.Topologies)
	}
}

func TestRegisterWithoutSecretsKeepsThem(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	v := volumestest.Spec("v")
	v.Secrets = map[string]string{"key": "s"}
	r.Register(v)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	if r.MustClaim("v", "a1", "n1").Volume.Secrets["key"] != "s" {
		t.Fatal("the secrets are gone")
	}
	if d := r.Get("v"); d.Secrets != nil {
		t.Fatal("the secrets are shown")
	}
}

func TestUpdateNamesAllFieldsThatCannotChange(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Change("n1", func(n *api.Node) { n.CSINodePlugins["q"] = n.CSINodePlugins["p"] })
	v := volumestest.Spec("v")
	v.Parameters = map[string]string{"a": "b"}
	r.Register(v)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	changed := volumestest.Spec("v", api.AccessMultiNodeMultiWriter)
	changed.PluginID, changed.ExternalID, changed.Name = "q", "other", "other"
	changed.Parameters = map[string]string{"a": "c"}
	changed.MountOptions = &api.MountOptions{FSType: "xfs"}
	_, err := r.Service.Register(t.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{changed}})
	if !errors.Is(err, fault.Invalid) {
		t.Fatalf("error is %v", err)
	}
	for _, want := range []string{"plugin_id", "external_id", "name", "parameters", "mount_options", "capability single-node-writer"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestCreateOfAPluginWithoutController(t *testing.T) {
	r := newRig(t)
	r.Node("n1", volumestest.NoController)
	if err := r.Create(volumestest.Made("v")); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "controller") {
		t.Fatalf("error is %v", err)
	}
	if r.State.Read().Volume("default", "v") != nil {
		t.Fatal("a row is left")
	}
}

func TestSameNameIsNotAskedForTwice(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	twin := volumestest.Made("w")
	twin.Name = "v"
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	if err := r.Create(twin); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `"v"`) {
		t.Fatalf("two volumes share one at the provider: %v", err)
	}
}

func TestCreateOfAKnownVolumeUpdatesIt(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("old"))
	write := func(spec *api.VolumeSpec) *api.VolumeWriteResponse {
		t.Helper()
		out, err := r.Service.Create(r.Context(), &api.VolumeCreateRequest{Volumes: []*api.VolumeSpec{spec}})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	changed := volumestest.Spec("old")
	changed.OnNodeLoss = api.NodeLossWait
	if out := write(changed); !slices.Equal(out.Known, []string{"old"}) || out.Volumes[0].OnNodeLoss != api.NodeLossWait {
		t.Errorf("a volume that was registered: %+v", out)
	}
	if n.Count("Controller.Create") != 0 {
		t.Error("its driver was asked to make it")
	}
	if out := write(volumestest.Made("new")); len(out.Known) != 0 {
		t.Errorf("a new volume: %+v", out)
	}
}

func TestTimesAreThoseOfTheCommand(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	at := time.Unix(1_700_000_000, 0)
	r.Halt()
	r.Raft.Now = func() time.Time { return at }
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	v, c := r.State.Read().Volume("default", "v"), r.State.Read().Claim("default", "v", "a1", "")
	if v.CreateTime != at.UnixNano() || c.Since != at.UnixNano() {
		t.Fatalf("times are %d and %d", v.CreateTime, c.Since)
	}
}

func TestKeysOfNamespacesDoNotMix(t *testing.T) {
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	r.Edit(func(tx *state.Txn) {
		tx.PutNamespace(&api.Namespace{Name: "a"})
		tx.PutNamespace(&api.Namespace{Name: "ab"})
	})
	x, y := volumestest.Made("bc"), volumestest.Made("c")
	x.Namespace, x.Name, y.Namespace, y.Name = "a", "x", "ab", "y"
	n.On("Controller.Create", func(_ context.Context, req any) error {
		if req.(*api.ControllerCreateRequest).Name == "x" {
			return volumestest.Says("Controller.Create", codes.DeadlineExceeded, "no answer")
		}
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- r.Create(x) }()
	n.Await(t, "Controller.Create")
	if err := r.Create(y); err != nil {
		t.Fatal(err)
	}
	n.On("Controller.Create", nil)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// What a driver offers to one node only is not given to two because a spec says so later.
func TestNewCapabilitiesOfAKnownVolumeAreValidated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	n.On("Controller.Validate", func(_ context.Context, req any) error {
		for _, c := range req.(*api.ControllerValidateRequest).Capabilities {
			if c.AccessMode != writer {
				return volumestest.Says("Controller.Validate", codes.InvalidArgument, "one node only")
			}
		}
		return nil
	})
	register := func(modes ...api.AccessMode) error {
		_, err := r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{volumestest.Spec("v", modes...)}})
		return err
	}
	if err := register(writer); err != nil {
		t.Fatal(err)
	}
	if err := register(writer); err != nil || n.Count("Controller.Validate") != 1 {
		t.Errorf("the same once more: %v after %d validations", err, n.Count("Controller.Validate"))
	}
	if err := register(writer, api.AccessMultiNodeMultiWriter); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "one node only") {
		t.Errorf("error is %v", err)
	}
	if c := r.State.Read().Volume("default", "v").RequestedCapabilities; len(c) != 1 {
		t.Errorf("capabilities are %v", c)
	}
}

// A creation that its driver neither makes nor refuses is ended by commands that its answer names.
func TestCreationThatGoesOnNamesItsWaysOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1").Says("Controller.Create", codes.Unavailable, "in maintenance")
	err := r.Create(volumestest.Made("v"))
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "in maintenance") || !strings.Contains(err.Error(), "nomad volume delete v") {
		t.Errorf("create: %v", err)
	}
}
