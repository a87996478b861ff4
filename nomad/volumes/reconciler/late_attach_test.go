package reconciler_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// writtenOff ends everything of the volume on the node while its attach is under way.
func (r *rig) writtenOff(volume, node string) {
	r.T.Helper()
	for range 2 { // the claim first, then the attachment
		q := &api.VolumeDetachRequest{VolumeID: volume, NodeID: node, Force: true}
		if _, err := r.Service.Detach(r.Context(), q); err != nil {
			r.T.Fatal(err)
		}
	}
	if r.State.Read().Attachment("p", "ext-"+volume, node) != nil {
		r.T.Fatalf("rows: %s", r.Describe())
	}
}

// An attach that succeeds after an operator has ended it is undone: nobody else knows of it. By then nothing may be
// known of its node any more, for the command is for nodes that are lost.
func TestAttachThatComesAfterItWasWrittenOffIsUndone(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(*rig){
		"the node is there":      func(*rig) {},
		"the plugin has left it": func(r *rig) { r.Change("n1", func(n *api.Node) { n.CSINodePlugins = nil }) },
		"the node is purged":     func(r *rig) { r.Edit(func(tx *state.Txn) { tx.DeleteNode("n1") }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.Node("n1", volumestest.NodeOnly)
			n := r.Node("n2")
			r.Register(volumestest.Spec("v"))
			release := n.Hold("Controller.Publish")
			r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
			n.Await(t, "Controller.Publish")
			r.writtenOff("v", "n1")
			gone(r)
			detach := volumestest.Watch[api.ControllerUnpublishRequest](n, "Controller.Unpublish")
			release()
			n.Await(t, "Controller.Unpublish")
			r.Free("v") // it was answered
			if node := detach.Only(t).ProviderNodeID; node != "provider-n1" {
				t.Errorf("detached from %q", node)
			}
		})
	}
}

// The driver takes no call without the secrets, and the volume that has them is not registered any more.
func TestAttachThatComesAfterItsVolumeWasForgottenIsUndoneWithItsSecrets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	v := volumestest.Spec("v")
	v.Secrets = map[string]string{"key": "value"}
	r.Register(v)
	release := n.Hold("Controller.Publish")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	n.Await(t, "Controller.Publish")
	r.writtenOff("v", "n1")
	if _, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v"}); err != nil {
		t.Fatal(err)
	}
	detach := volumestest.Watch[api.ControllerUnpublishRequest](n, "Controller.Unpublish")
	release()
	n.Await(t, "Controller.Unpublish")
	r.Free("v") // it was answered
	if given := detach.Only(t).Secrets["key"]; given != "value" {
		t.Errorf("the driver is given %q", given)
	}
}

// Secrets are those of the volume as it is when the call is made.
func TestUndoOfALateAttachTakesTheSecretsOfNow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	v := volumestest.Spec("v")
	v.Secrets = map[string]string{"key": "old"}
	r.Register(v)
	release := n.Hold("Controller.Publish")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	n.Await(t, "Controller.Publish")
	r.writtenOff("v", "n1")
	next := *v
	next.Secrets = map[string]string{"key": "new"}
	r.Register(&next)
	detach, keep := volumestest.Watch[api.ControllerUnpublishRequest](n, "Controller.Unpublish"), n.Hold("Controller.Unpublish")
	release()
	n.Await(t, "Controller.Unpublish")
	if a := r.State.Read().Attachment("p", "ext-v", "n1"); a == nil || len(a.Secrets) > 0 {
		t.Errorf("the row is %+v", a)
	}
	keep()
	r.Free("v")
	if given := detach.Only(t).Secrets["key"]; given != "new" {
		t.Errorf("the driver is given %q", given)
	}
}

// What an attach that nobody answered has done is not known; one that was refused for certain has done nothing.
func TestAttachThatFailsAfterItWasWrittenOffIsUndoneIfItMayHaveHadItsEffect(t *testing.T) {
	t.Parallel()
	for code, undone := range map[codes.Code]int{codes.DeadlineExceeded: 1, codes.InvalidArgument: 0} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.Node("n1", volumestest.NodeOnly)
			n := r.Node("n2")
			r.Register(volumestest.Spec("v"))
			n.Says("Controller.Publish", code, "no")
			release := n.Hold("Controller.Publish")
			r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
			n.Await(t, "Controller.Publish")
			r.writtenOff("v", "n1")
			n.On("Controller.Publish", nil)
			release()
			r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer))
			r.MustClaim("v", "a2", "n2") // after the calls of before
			r.Eventually("nothing is left on n1", func(tx *state.Txn) bool { return tx.Attachment("p", "ext-v", "n1") == nil })
			if n.Count("Controller.Unpublish") != undone {
				t.Errorf("calls are %v", n.Calls())
			}
		})
	}
}
