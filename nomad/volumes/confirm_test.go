package volumes_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/volumes"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func (r *rig) confirm(external string, fence uint64) error {
	_, err := r.Service.ConfirmIntent(r.Context(), &api.VolumeIntentRequest{
		NodeID: "n1", NodeSecret: "secret-n1", PluginID: "p", ExternalID: external, Fence: fence,
	})
	return err
}

func TestOnlyTheNewestIntentIsConfirmed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	for _, method := range []string{"Controller.Publish", "Controller.Unpublish", "Controller.Create", "Controller.Snapshot"} {
		n.Says(method, codes.Unavailable, "later")
	}
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	publish := r.State.Read().Attachment("p", "ext-v", "n1").Fence
	if err := r.confirm("ext-v", publish); err != nil {
		t.Errorf("the intent to attach: %v", err)
	}
	r.Ends("a1", api.AllocClientStatusFailed)
	unpublish := r.State.Read().Attachment("p", "ext-v", "n1").Fence
	if err := r.confirm("ext-v", publish); !errors.Is(err, fault.Conflict) {
		t.Errorf("the attach that is undone: %v", err)
	}
	if err := r.confirm("ext-v", unpublish); err != nil {
		t.Errorf("the intent to detach: %v", err)
	}
	if err := r.confirm("ext-w", unpublish); !errors.Is(err, fault.Conflict) {
		t.Errorf("the same of another volume: %v", err)
	}
	n.On("Controller.Unpublish", nil)
	r.Free("v")
	if err := r.confirm("ext-v", unpublish); !errors.Is(err, fault.Conflict) {
		t.Errorf("the detach that was answered: %v", err)
	}
	_ = r.Create(volumestest.Made("new"))
	if err := r.confirm("", r.State.Read().Volume("default", "new").Provision.Intent); err != nil {
		t.Errorf("the intent to create: %v", err)
	}
	_, _ = r.Snapshot("s")
	if err := r.confirm("ext-v", r.State.Read().SnapshotIntent("p", "s", false).CreateIndex); err != nil {
		t.Errorf("the intent of a snapshot: %v", err)
	}
}

func TestIntentIsConfirmedByTheLeaderToANode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1").Says("Controller.Publish", codes.Unavailable, "later")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	fence := r.State.Read().Attachment("p", "ext-v", "n1").Fence
	if _, err := r.Service.ConfirmIntent(r.Context(), &api.VolumeIntentRequest{
		NodeID: "n1", NodeSecret: "guessed", PluginID: "p", ExternalID: "ext-v", Fence: fence,
	}); !errors.Is(err, fault.Denied) {
		t.Errorf("somebody else: %v", err)
	}
	deposed := volumes.New(volumes.Config{State: r.State, Raft: r.Raft, VerifyLeader: func(context.Context) error {
		return fault.New(fault.NotLeader, "deposed")
	}})
	if _, err := deposed.ConfirmIntent(r.Context(), &api.VolumeIntentRequest{
		NodeID: "n1", NodeSecret: "secret-n1", PluginID: "p", ExternalID: "ext-v", Fence: fence,
	}); !errors.Is(err, fault.NotLeader) {
		t.Errorf("a leader that was deposed: %v", err)
	}
}
