package reconciler_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// A plugin that expands only volumes out of use is not asked about one in use, and the caller is
// told who uses it.
func TestOfflineExpansionWaitsForUsers(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].ControllerInfo.OfflineExpansion = true })
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	bigger := volumestest.Made("v")
	bigger.RequestedCapacityMin = 300
	err := r.Create(bigger)
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "a1") || n.Count("Controller.Expand") != 0 {
		t.Fatalf("after %d expansions of a volume in use: %v", n.Count("Controller.Expand"), err)
	}
	if v := r.Get("v"); v.State != api.VolumeAvailable {
		t.Errorf("the volume is %s", v.State)
	}
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v", "a1", "n1")
	r.Free("v")
	if err := r.Create(bigger); err != nil || n.Count("Controller.Expand") != 1 {
		t.Fatalf("after %d expansions of a volume out of use: %v", n.Count("Controller.Expand"), err)
	}
}

func TestCreateIsResumed(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	n.Says("Controller.Create", codes.DeadlineExceeded, "no answer")
	err := r.Create(volumestest.Made("v"))
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no answer") {
		t.Fatalf("error is %v", err)
	}
	if d := r.Get("v"); d.State != api.VolumeCreating || d.LastError == "" {
		t.Fatalf("the open creation is not shown: %+v", d)
	}
	r.Halt()
	var names []string
	n.On("Controller.Create", func(_ context.Context, req any) error {
		names = append(names, req.(*api.ControllerCreateRequest).Name)
		return nil
	})
	r.Start()
	r.Eventually("the volume is created", func(tx *state.Txn) bool {
		return tx.Volume("default", "v").Provision.State == api.VolumeAvailable
	})
	if len(names) != 1 || names[0] != "v" {
		t.Fatalf("the driver was asked for %v", names)
	}
}

func TestDeleteOfAHalfCreatedVolumeLearnsItsID(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	n.Says("Controller.Create", codes.DeadlineExceeded, "no answer")
	if err := r.Create(volumestest.Made("v")); !errors.Is(err, fault.Unavailable) {
		t.Fatalf("error is %v", err)
	}
	n.On("Controller.Create", nil)
	var deleted []string
	n.On("Controller.Delete", func(_ context.Context, req any) error {
		deleted = append(deleted, req.(*api.ControllerDeleteRequest).ExternalID)
		return nil
	})
	if err := r.Delete("v"); err != nil && !errors.Is(err, fault.NotFound) {
		t.Fatal(err)
	}
	r.Eventually("the row is gone", func(tx *state.Txn) bool { return tx.Volume("default", "v") == nil })
	if !slices.Equal(deleted, []string{"ext-v"}) {
		t.Fatalf("deleted are %v", deleted)
	}
}

func TestExpansionIsOwedByTheNextNode(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	n.Grows(api.ControllerExpandResponse{NodeExpansionRequired: true})
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	bigger := volumestest.Made("v")
	bigger.RequestedCapacityMin = 300
	if err := r.Create(bigger); err != nil {
		t.Fatal(err)
	}
	if n.Count("NodeVolume.Expand") != 0 {
		t.Fatal("a node without the volume was asked to expand it")
	}
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	n.Await(t, "NodeVolume.Expand")
	r.Eventually("nothing is owed", func(tx *state.Txn) bool { return len(tx.Volume("default", "v").Provision.NodeExpansion) == 0 })
}

// Of a volume that was registered nobody knows the size: that it was asked for before does not mean that it has it.
func TestExpansionOfAVolumeOfUnknownSizeCanBeAskedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	larger := volumestest.Spec("v")
	larger.RequestedCapacityMin = 1000
	ask := func() error {
		_, err := r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{larger}})
		return err
	}
	n.Says("Controller.Expand", codes.OutOfRange, "the pool is full")
	for range 2 {
		wants(t, ask(), fault.Invalid, "the pool is full")
	}
	n.On("Controller.Expand", nil)
	if err := ask(); err != nil || r.Get("v").Capacity != 1000 {
		t.Errorf("the volume has %d bytes, %v", r.Get("v").Capacity, err)
	}
}

func TestExpansionThatTheDriverRefusesCanBeAskedAgain(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	n.Says("Controller.Expand", codes.InvalidArgument, "too large")
	bigger := volumestest.Made("v")
	bigger.RequestedCapacityMin = 300
	if err := r.Create(bigger); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "too large") {
		t.Fatalf("error is %v", err)
	}
	if d := r.Get("v"); d.State != api.VolumeAvailable || d.Capacity != 100 {
		t.Fatalf("details are %+v", d)
	}
	n.On("Controller.Expand", nil)
	if err := r.Create(bigger); err != nil {
		t.Fatal(err)
	}
	if d := r.Get("v"); d.Capacity != 300 {
		t.Fatalf("capacity is %d", d.Capacity)
	}
}
