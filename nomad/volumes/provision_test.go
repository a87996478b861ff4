package volumes_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
)

func made(id string) *api.VolumeSpec {
	v := spec(id)
	v.ExternalID, v.RequestedCapacityMin = "", 100
	return v
}

func (r *rig) create(specs ...*api.VolumeSpec) error {
	_, err := r.room.Create(r.ctx(), &api.VolumeCreateRequest{Volumes: specs})
	return err
}

func (r *rig) delete(id string) error {
	_, err := r.room.Delete(r.ctx(), &api.VolumeDeleteRequest{VolumeID: id})
	return err
}

func TestRegisterTellsAllErrorsAtOnce(t *testing.T) {
	r := newRig(t)
	_, err := r.room.Register(t.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{{
		ID: "../etc", Namespace: "nowhere", SnapshotID: "s", CloneID: "c", RequestedCapacityMin: 2, RequestedCapacityMax: 1,
	}, spec("v")}})
	if !errors.Is(err, fault.Invalid) {
		t.Fatalf("error is %v", err)
	}
	for _, want := range []string{"volume ID", "missing plugin ID", "clone_id and snapshot_id", "capability", "capacity_min", `namespace "nowhere"`, "no CSI plugin named: p"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestS29IDsThatEscapeAreRefused(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	for _, id := range []string{"", "a/b", "..", "a..b", "a b", "ä", "a\x00", strings.Repeat("a", 129)} {
		if _, err := r.room.Register(t.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{spec(id)}}); !errors.Is(err, fault.Invalid) {
			t.Errorf("id %q: %v", id, err)
		}
	}
	r.register(spec("a-b_c.d[3]"))
}

func TestRegisterAsksTheController(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	n.fails("Controller.Validate", fault.New(fault.Invalid, "no such mode"))
	_, err := r.room.Register(t.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{spec("v")}})
	if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "no such mode") {
		t.Fatalf("error is %v", err)
	}
	r.change("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].Healthy = false })
	_, err = r.room.Register(t.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{spec("v")}})
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "no healthy controller") {
		t.Fatalf("error is %v", err)
	}
}

func TestS1RegisterNeverTouchesClaims(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.node("n2", nodeOnly)
	if err := r.create(made("v")); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	n.on("Controller.Expand", func(context.Context, any) error { <-release; return nil })
	bigger := made("v")
	bigger.RequestedCapacityMin = 200
	done := make(chan error, 1)
	go func() {
		_, err := r.room.Register(r.ctx(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{bigger}})
		done <- err
	}()
	n.await(t, "Controller.Expand")
	r.mustPlace(alloc("a1", "n1", "v", writer)) // while the driver expands
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.mustClaim("v", "a1", "n1")
	d := r.get("v")
	if len(d.WriteAllocs) != 1 || d.Capacity != 200 || d.State != api.VolumeAvailable {
		t.Fatalf("details are %+v", d)
	}
	if err := r.place(alloc("b1", "n2", "v", writer, of("other"))); !errors.Is(err, fault.Conflict) {
		t.Fatalf("two writers: %v", err)
	}
}

func TestS2DeleteRefusedWhileClaimed(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	if err := r.create(made("v")); err != nil {
		t.Fatal(err)
	}
	r.mustPlace(alloc("a1", "n1", "v", writer))
	err := r.delete("v")
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `"v" is held by allocation a1`) {
		t.Fatalf("error is %v", err)
	}
	if n.count("Controller.Delete") != 0 {
		t.Fatal("the driver was asked to delete a volume in use")
	}
	r.mustClaim("v", "a1", "n1")
	r.unmounted("v", "a1", "n1")
	r.free("v")
	if err := r.delete("v"); err != nil {
		t.Fatal(err)
	}
	if r.state.Read().Volume("default", "v") != nil || n.count("Controller.Delete") != 1 {
		t.Fatal("the volume is not deleted")
	}
}

func TestS2NobodyClaimsAVolumeThatIsBeingDeleted(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	if err := r.create(made("v")); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	n.on("Controller.Delete", func(context.Context, any) error { <-release; return nil })
	done := make(chan error, 1)
	go func() { done <- r.delete("v") }()
	n.await(t, "Controller.Delete")
	if err := r.place(alloc("a1", "n1", "v", writer)); !errors.Is(err, fault.Conflict) {
		t.Fatalf("a volume that is being deleted is claimed: %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestDeleteThatTheDriverRefusesGivesTheVolumeBack(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	if err := r.create(made("v")); err != nil {
		t.Fatal(err)
	}
	n.fails("Controller.Delete", fault.New(fault.Conflict, "it has snapshots"))
	if err := r.delete("v"); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "it has snapshots") {
		t.Fatalf("error is %v", err)
	}
	if d := r.get("v"); d.State != api.VolumeAvailable || !strings.Contains(d.LastError, "it has snapshots") {
		t.Fatalf("details are %+v", d)
	}
}

func TestS8DetachWorksForAllocsThatAreGone(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	detach := func(force bool) error {
		_, err := r.room.Detach(r.ctx(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: force})
		return err
	}
	if err := detach(false); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `"v" is held by allocation a1`) {
		t.Fatalf("a running allocation loses its volume: %v", err)
	}
	r.edit(func(tx *state.Txn) { tx.DeleteAlloc("a1") })
	if err := detach(false); err != nil {
		t.Fatal(err)
	}
	if n.count("NodeVolume.Detach") != 1 {
		t.Fatal("the node was not asked to unmount")
	}
	r.free("v")
	if err := detach(false); !errors.Is(err, fault.NotFound) {
		t.Fatalf("error is %v", err)
	}
}

func TestDetachOfALostNodeNeedsForce(t *testing.T) {
	r := newRig(t)
	n2 := r.node("n2")
	r.node("n1", nodeOnly)
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	n2.fails("Controller.Unpublish", fault.New(fault.Internal, "later"))
	r.down("n1", 0)
	detach := func(force bool) error {
		_, err := r.room.Detach(r.ctx(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: force})
		return err
	}
	if err := detach(false); !errors.Is(err, fault.Conflict) {
		t.Fatalf("error is %v", err)
	}
	if err := detach(true); err != nil {
		t.Fatal(err)
	}
	if a := r.state.Read().Attachment("p", "ext-v", "n1"); a == nil || a.Proof != "assumed" || a.State != api.AttachmentUnpublishing {
		t.Fatalf("attachment is %+v", a)
	}
}

func TestS17TimesAreSet(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	r.register(spec("v"))
	first := r.get("v")
	if first.CreateTime == 0 || first.ModifyTime == 0 {
		t.Fatalf("times are %d, %d", first.CreateTime, first.ModifyTime)
	}
	r.register(spec("v"))
	if second := r.get("v"); second.CreateTime != first.CreateTime || second.ModifyTime <= first.ModifyTime {
		t.Fatalf("times are %d, %d after %d", second.CreateTime, second.ModifyTime, first.ModifyTime)
	}
}

func TestS30CreateIsResumed(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	n.fails("Controller.Create", fault.New(fault.Timeout, "no answer"))
	err := r.create(made("v"))
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no answer") {
		t.Fatalf("error is %v", err)
	}
	if d := r.get("v"); d.State != api.VolumeCreating || d.LastError == "" {
		t.Fatalf("the open creation is not shown: %+v", d)
	}
	r.halt()
	var names []string
	n.on("Controller.Create", func(_ context.Context, req any) error {
		names = append(names, req.(*api.ControllerCreateRequest).Name)
		return nil
	})
	r.start()
	r.eventually("the volume is created", func(tx *state.Txn) bool {
		return tx.Volume("default", "v").Provision.State == api.VolumeAvailable
	})
	if len(names) != 1 || names[0] != "v" {
		t.Fatalf("the driver was asked for %v", names)
	}
}

func TestS30PartialSuccessIsTold(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	n.on("Controller.Create", func(_ context.Context, req any) error {
		if req.(*api.ControllerCreateRequest).Name == "v2" {
			return fault.New(fault.Exhausted, "pool is full")
		}
		return nil
	})
	err := r.create(made("v1"), made("v2"))
	if !errors.Is(err, fault.Exhausted) || !strings.Contains(err.Error(), "pool is full") || !strings.Contains(err.Error(), `"v1"`) {
		t.Fatalf("error is %v", err)
	}
	if d := r.get("v2"); d.State != api.VolumeFailed || d.Schedulable || !strings.Contains(d.LastError, "pool is full") {
		t.Fatalf("the failed volume shows %+v", d)
	}
	n.on("Controller.Create", nil)
	if err := r.create(made("v1"), made("v2")); err != nil {
		t.Fatal(err)
	}
	if n.count("Controller.Create") != 3 {
		t.Fatalf("calls are %v", n.calls)
	}
}

func TestDeleteOfAHalfCreatedVolumeLearnsItsID(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	n.fails("Controller.Create", fault.New(fault.Timeout, "no answer"))
	if err := r.create(made("v")); !errors.Is(err, fault.Unavailable) {
		t.Fatalf("error is %v", err)
	}
	n.on("Controller.Create", nil)
	var deleted []string
	n.on("Controller.Delete", func(_ context.Context, req any) error {
		deleted = append(deleted, req.(*api.ControllerDeleteRequest).ExternalID)
		return nil
	})
	if err := r.delete("v"); err != nil && !errors.Is(err, fault.NotFound) {
		t.Fatal(err)
	}
	r.eventually("the row is gone", func(tx *state.Txn) bool { return tx.Volume("default", "v") == nil })
	if !slices.Equal(deleted, []string{"ext-v"}) {
		t.Fatalf("deleted are %v", deleted)
	}
}

func TestS31ExpansionIsOwedByTheNextNode(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	n.grown = api.ControllerExpandResponse{NodeExpansionRequired: true}
	if err := r.create(made("v")); err != nil {
		t.Fatal(err)
	}
	bigger := made("v")
	bigger.RequestedCapacityMin = 300
	if err := r.create(bigger); err != nil {
		t.Fatal(err)
	}
	if n.count("NodeVolume.Expand") != 0 {
		t.Fatal("a node without the volume was asked to expand it")
	}
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	n.await(t, "NodeVolume.Expand")
	r.eventually("nothing is owed", func(tx *state.Txn) bool { return len(tx.Volume("default", "v").Provision.NodeExpansion) == 0 })
}

func TestExpansionThatTheDriverRefusesCanBeAskedAgain(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	if err := r.create(made("v")); err != nil {
		t.Fatal(err)
	}
	n.fails("Controller.Expand", fault.New(fault.Invalid, "too large"))
	bigger := made("v")
	bigger.RequestedCapacityMin = 300
	if err := r.create(bigger); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "too large") {
		t.Fatalf("error is %v", err)
	}
	if d := r.get("v"); d.State != api.VolumeAvailable || d.Capacity != 100 {
		t.Fatalf("details are %+v", d)
	}
	n.on("Controller.Expand", nil)
	if err := r.create(bigger); err != nil {
		t.Fatal(err)
	}
	if d := r.get("v"); d.Capacity != 300 {
		t.Fatalf("capacity is %d", d.Capacity)
	}
}

func TestS33MissingVolumeAndPluginWithoutController(t *testing.T) {
	r := newRig(t)
	r.node("n1", noController)
	if err := r.delete("v"); !errors.Is(err, fault.NotFound) {
		t.Fatalf("error is %v", err)
	}
	r.register(spec("v"))
	if err := r.delete("v"); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "deregister") {
		t.Fatalf("error is %v", err)
	}
}

func TestS36ForcedDeregisterStillCleansUp(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	v := spec("v")
	v.Secrets = map[string]string{"key": "s"}
	r.register(v)
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	deregister := func(force bool) error {
		_, err := r.room.Deregister(r.ctx(), &api.VolumeDeregisterRequest{VolumeID: "v", Force: force})
		return err
	}
	for _, force := range []bool{false, true} {
		if err := deregister(force); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `"v" is held by allocation a1`) {
			t.Fatalf("force %v: %v", force, err)
		}
	}
	r.ends("a1", api.AllocClientStatusComplete)
	if err := deregister(true); err != nil {
		t.Fatal(err)
	}
	var secret string
	n.on("Controller.Unpublish", func(_ context.Context, req any) error {
		secret = req.(*api.ControllerUnpublishRequest).Secrets["key"]
		return nil
	})
	r.unmounted("v", "a1", "n1")
	r.free("v")
	if secret != "s" {
		t.Fatal("the detach lacks the volume's secrets")
	}
}

func TestS38TopologiesAreWhole(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	n.created = api.ControllerCreateResponse{ExternalID: "x", Topologies: []*api.Topology{nil, {Segments: map[string]string{"zone": "a"}}, {}}}
	if err := r.create(made("v")); err != nil {
		t.Fatal(err)
	}
	if d := r.get("v"); len(d.Topologies) != 1 || d.Topologies[0].Segments["zone"] != "a" {
		t.Fatalf("topologies are %v", d.Topologies)
	}
}

func TestS40RegisterWithoutSecretsKeepsThem(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	v := spec("v")
	v.Secrets = map[string]string{"key": "s"}
	r.register(v)
	r.register(spec("v"))
	if r.state.Read().Volume("default", "v").Secrets["key"] != "s" {
		t.Fatal("the secrets are gone")
	}
	if d := r.get("v"); d.Secrets != nil {
		t.Fatal("the secrets are shown")
	}
}

func TestUpdateNamesAllFieldsThatCannotChange(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	r.edit(func(tx *state.Txn) {
		n := *tx.Node("n1")
		n.CSINodePlugins = cloned(n.CSINodePlugins)
		n.CSINodePlugins["q"] = n.CSINodePlugins["p"]
		tx.PutNode(&n)
	})
	v := spec("v")
	v.Parameters = map[string]string{"a": "b"}
	r.register(v)
	r.mustPlace(alloc("a1", "n1", "v", writer))
	changed := spec("v", api.AccessMultiNodeMultiWriter)
	changed.PluginID, changed.ExternalID, changed.Name = "q", "other", "other"
	changed.Parameters = map[string]string{"a": "c"}
	changed.MountOptions = &api.MountOptions{FSType: "xfs"}
	_, err := r.room.Register(t.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{changed}})
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
	r.node("n1", noController)
	if err := r.create(made("v")); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "controller") {
		t.Fatalf("error is %v", err)
	}
	if r.state.Read().Volume("default", "v") != nil {
		t.Fatal("a row is left")
	}
}

func TestSameNameIsNotAskedForTwice(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	twin := made("w")
	twin.Name = "v"
	if err := r.create(made("v")); err != nil {
		t.Fatal(err)
	}
	if err := r.create(twin); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `"v"`) {
		t.Fatalf("two volumes share one at the provider: %v", err)
	}
}

func TestDefaultLimitsFillGaps(t *testing.T) {
	if d := volumes.Default(); d.FenceAfter != 30*time.Second || d.LeaseMargin != 2*time.Second || d.RetryMin != time.Second || d.RetryMax != time.Minute {
		t.Fatalf("defaults are %+v", d)
	}
}
