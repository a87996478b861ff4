package reconciler_test

import (
	"context"
	"strings"
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

// undone waits until what was written off of the volume "v" on the node is detached.
func (r *rig) undone(node string) {
	r.T.Helper()
	r.Eventually("nothing is left on "+node, func(tx *state.Txn) bool {
		return tx.Attachment("p", "ext-v", node) == nil && tx.WrittenOffTo("p", "ext-v", node) == nil
	})
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
			r.undone("n1")
			if node := detach.Only(t).ProviderNodeID; node != "provider-n1" {
				t.Errorf("detached from %q", node)
			}
		})
	}
}

// Whatever took the row away, what a driver says to have attached is not left at the provider.
func TestAttachThatIsOnNoRecordIsUndone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1", volumestest.NodeOnly)
	n := r.Node("n2")
	r.Register(volumestest.Spec("v"))
	release := n.Hold("Controller.Publish")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	n.Await(t, "Controller.Publish")
	r.Edit(func(tx *state.Txn) {
		for c := range tx.Claims() {
			tx.DeleteClaim(c.Namespace, c.VolumeID, c.AllocID, c.Use)
		}
		tx.DeleteAttachment("p", "ext-v", "n1")
	})
	detach := volumestest.Watch[api.ControllerUnpublishRequest](n, "Controller.Unpublish")
	release()
	n.Await(t, "Controller.Unpublish")
	r.undone("n1")
	if node := detach.Only(t).ProviderNodeID; node != "provider-n1" {
		t.Errorf("detached from %q", node)
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
	r.undone("n1")
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
	if a := r.State.Read().WrittenOffTo("p", "ext-v", "n1"); a == nil || len(a.Secrets) > 0 {
		t.Errorf("the row is %+v", a)
	}
	keep()
	r.undone("n1")
	if given := detach.Only(t).Secrets["key"]; given != "new" {
		t.Errorf("the driver is given %q", given)
	}
}

// What an attach has done is not known when it is written off.
func TestAttachThatFailsAfterItWasWrittenOffIsUndone(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.InvalidArgument} {
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
			r.undone("n1")
			if n.Count("Controller.Unpublish") != 1 {
				t.Errorf("calls are %v", n.Calls())
			}
		})
	}
}

// The driver may have attached the volume, or does not detach it, when an operator ends that: it is free at once, and the
// driver is asked on until it has let go, whoever leads and whatever is left of the volume.
func TestAttachThatWasWrittenOffIsUndoneWhenItsPluginIsBack(t *testing.T) {
	t.Parallel()
	for name, attach := range map[string]codes.Code{"of unknown outcome": codes.DeadlineExceeded, "that succeeded": codes.OK} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, forAnAnswer)
			r.Node("n1", volumestest.NodeOnly)
			n2 := r.Node("n2")
			v := volumestest.Spec("v")
			v.Secrets = map[string]string{"key": "value"}
			r.Register(v)
			n2.Says("Controller.Unpublish", codes.Unavailable, "not now")
			if attach != codes.OK {
				n2.Says("Controller.Publish", attach, "no answer")
			}
			r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
			n2.Await(t, "Controller.Publish")
			r.Eventually("it is answered", func(tx *state.Txn) bool {
				a := tx.Attachment("p", "ext-v", "n1")
				return a.LastError != "" || a.State == api.AttachmentPublished
			})
			r.Ends("a1", api.AllocClientStatusFailed)
			_ = r.Report("v", "a1", "n1", "")
			r.Eventually("it is not detached", func(tx *state.Txn) bool {
				a := tx.Attachment("p", "ext-v", "n1")
				return a.State == api.AttachmentUnpublishing && a.LastError != ""
			})
			controllers := r.State.Read().Node("n2").CSIControllerPlugins
			r.Change("n2", func(n *api.Node) { n.CSIControllerPlugins = nil })
			// A second one could end what was written off, once another detach failed.
			if _, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}); err != nil {
				t.Fatal(err)
			}
			r.Free("v")
			if _, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v"}); err != nil {
				t.Fatal(err)
			}
			r.Edit(func(tx *state.Txn) { tx.DeleteNode("n1") })
			r.Halt() // another leader
			r.Start()
			detach := volumestest.Watch[api.ControllerUnpublishRequest](n2, "Controller.Unpublish")
			r.Change("n2", func(n *api.Node) { n.CSIControllerPlugins = controllers })
			r.undone("n1")
			if q := detach.Only(t); q.ProviderNodeID != "provider-n1" || q.Secrets["key"] != "value" {
				t.Errorf("asked is %+v", q)
			}
		})
	}
}

// What an operator has written off is in nobody's way, and ended by the same word once its driver has failed at it again.
func TestWhatWasWrittenOffIsInNobodysWay(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	r.Node("n2", volumestest.NodeOnly)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	n.On("Controller.Unpublish", func(_ context.Context, q any) error {
		if q.(*api.ControllerUnpublishRequest).ProviderNodeID == "provider-n1" {
			return volumestest.Says("Controller.Unpublish", codes.Internal, "never")
		}
		return nil
	})
	r.Unmounted("v", "a1", "n1")
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Eventually("it is not detached", func(tx *state.Txn) bool { return tx.Attachment("p", "ext-v", "n1").LastError != "" })
	force := func() {
		t.Helper()
		if _, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	force()
	r.Eventually("the driver is asked on", func(tx *state.Txn) bool {
		a := tx.WrittenOffTo("p", "ext-v", "n1")
		return a != nil && strings.Contains(a.LastError, "never")
	})
	out, err := r.Service.Attachments(r.Context(), &api.VolumeAttachmentListRequest{NodeID: "n1"})
	if err != nil || len(out.Attachments) != 1 || out.Attachments[0].State != "written off" || out.Attachments[0].Remedy != "nomad volume detach -force v n1" {
		t.Errorf("listed is %+v, %v", out, err)
	}
	r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer))
	r.MustClaim("v", "a2", "n2")
	r.Unmounted("v", "a2", "n2")
	r.Ends("a2", api.AllocClientStatusComplete)
	r.Free("v")
	r.MustPlace(volumestest.Alloc("a3", "n1", "v", writer)) // also on that node
	r.MustClaim("v", "a3", "n1")
	if r.State.Read().WrittenOffTo("p", "ext-v", "n1") != nil {
		t.Error("what is attached is still to be detached")
	}
	r.Unmounted("v", "a3", "n1")
	r.Ends("a3", api.AllocClientStatusComplete)
	r.Eventually("it is not detached", func(tx *state.Txn) bool { return tx.Attachment("p", "ext-v", "n1").LastError != "" })
	force()
	if err := r.Delete("v"); err != nil {
		t.Error(err)
	}
	r.Eventually("the driver is asked on", func(tx *state.Txn) bool { return tx.WrittenOffTo("p", "ext-v", "n1").LastError != "" })
	if _, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{PluginID: "p", ExternalID: "ext-v", NodeID: "n1", Force: true}); err != nil {
		t.Error(err)
	}
	if r.State.Read().WrittenOffTo("p", "ext-v", "n1") != nil {
		t.Error("it does not end")
	}
}

// A machine that was set up anew is another node with the driver's id of the former one: what is detached from that would
// be detached from this one.
func TestNothingIsDetachedFromAMachineThatUsesItAsAnotherNode(t *testing.T) {
	t.Parallel()
	for _, forced := range []bool{false, true} {
		r := newRig(t, forAnAnswer)
		n := r.Node("n1")
		same := func(n *api.Node) { n.CSINodePlugins["p"].NodeInfo.ID = "provider-n1" }
		r.Node("n2", volumestest.NodeOnly, same)
		r.Register(volumestest.Spec("v", api.AccessMultiNodeMultiWriter))
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", api.AccessMultiNodeMultiWriter))
		r.MustClaim("v", "a1", "n1")
		n.Says("Controller.Unpublish", codes.Unavailable, "not now")
		if forced {
			r.Ends("a1", api.AllocClientStatusComplete)
			r.Unmounted("v", "a1", "n1")
			r.Eventually("it is not detached", func(tx *state.Txn) bool { return tx.Attachment("p", "ext-v", "n1").LastError != "" })
			if _, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}); err != nil {
				t.Fatal(err)
			}
		}
		r.MustPlace(volumestest.Alloc("a2", "n2", "v", api.AccessMultiNodeMultiWriter))
		r.MustClaim("v", "a2", "n2")
		n.On("Controller.Unpublish", func(context.Context, any) error {
			if r.State.Read().Attachment("p", "ext-v", "n2").State == api.AttachmentPublished {
				t.Error("it is detached below its user")
			}
			return nil
		})
		if !forced {
			r.Ends("a1", api.AllocClientStatusComplete)
			r.Unmounted("v", "a1", "n1")
		}
		r.undone("n1")
		r.Ends("a2", api.AllocClientStatusComplete)
		r.Unmounted("v", "a2", "n2")
		r.Free("v")
		if n.Count("Controller.Unpublish") == 0 {
			t.Error("it is never detached")
		}
	}
}
