package volumes_test

import (
	"context"
	"errors"
	"testing"
	"time"

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

// A host may begin its call as long as its confirmation is good, whatever became of the answer.
func TestIntentsOfAnObjectAreConfirmedToOneHostAfterTheOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range []string{"n1", "n2"} {
		r.Node(id).Says("Controller.Publish", codes.Unavailable, "later")
	}
	if err := r.confirm("nothing", 1); !errors.Is(err, fault.Conflict) { // it waits until the term has begun
		t.Error("an intent of nothing was confirmed")
	}
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	publish := r.State.Read().Attachment("p", "ext-v", "n1").Fence
	ask := func(node string) time.Duration {
		t.Helper()
		begin := time.Now()
		if _, err := r.Service.ConfirmIntent(r.Context(), &api.VolumeIntentRequest{
			NodeID: node, NodeSecret: "secret-" + node, PluginID: "p", ExternalID: "ext-v", Fence: publish,
		}); err != nil {
			t.Fatal(err)
		}
		return time.Since(begin)
	}
	asked := time.Now()
	for range 2 {
		if took := ask("n1"); took > api.ConfirmTerm/2 {
			t.Errorf("a new object took %s", took)
		}
	}
	if ask("n2"); time.Since(asked) < api.ConfirmTerm {
		t.Errorf("another host was told to go on after %s", time.Since(asked))
	}
	r.Halt()
	r.Start() // what the leader of before confirmed is not known
	asked = time.Now()
	if ask("n2"); time.Since(asked) < api.ConfirmTerm*9/10 {
		t.Errorf("a new leader confirmed after %s", time.Since(asked))
	}
}
