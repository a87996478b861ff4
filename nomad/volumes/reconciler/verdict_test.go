package reconciler_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// says has the node's driver answer a method with one code after the other, and then well.
func says(n *volumestest.Node, method string, answers ...codes.Code) {
	var calls atomic.Int32
	n.On(method, func(context.Context, any) error {
		if i := int(calls.Add(1)); i <= len(answers) {
			return volumestest.Says(method, answers[i-1], "for now")
		}
		return nil
	})
}

func (r *rig) attachment(volume, node string) *api.VolumeAttachment {
	return r.State.Read().Attachment("p", "ext-"+volume, node)
}

// stuck waits until the attachment shows an error with the text.
func (r *rig) stuck(volume, node, text string) {
	r.T.Helper()
	r.Eventually("the attachment says "+text, func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-"+volume, node)
		return a != nil && strings.Contains(a.LastError, text)
	})
}

func TestFewTriesAreCountedByVerdictAndCode(t *testing.T) {
	t.Parallel()
	for _, last := range []codes.Code{codes.NotFound, codes.Internal, codes.ResourceExhausted} {
		r := newRig(t)
		n := r.Node("n1")
		says(n, "Controller.Publish", codes.Unavailable, codes.Unavailable, codes.Unavailable, last)
		r.Register(volumestest.Spec("v"))
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		if _, err := r.Claim("v", "a1", "n1"); err != nil || n.Count("Controller.Publish") != 5 {
			t.Errorf("after %d calls, the last but one of which answered %s: %v", n.Count("Controller.Publish"), last, err)
		}
	}
}

// A driver at work on a volume has not refused it: to ask another controller would be a second call for it.
func TestBusyDriverIsAskedAgainLaterAndNowhereElse(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Aborted, codes.Unavailable, codes.FailedPrecondition} {
		r := newRig(t, func(l *reconciler.Limits) { l.RetryMin, l.RetryMax = time.Hour, time.Hour })
		n1, n2 := r.Node("n1"), r.Node("n2")
		n1.Says("Controller.Publish", code, "an operation is pending")
		n2.Says("Controller.Publish", code, "an operation is pending")
		r.Register(volumestest.Spec("v"))
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.stuck("v", "n1", "an operation is pending")
		if calls := n1.Count("Controller.Publish") + n2.Count("Controller.Publish"); calls != 1 {
			t.Errorf("%d calls after %s", calls, code)
		}
	}
}

func TestControllerThatCannotIsPassedOver(t *testing.T) {
	t.Parallel()
	for i := range 8 { // whichever is the first for the volume
		id := string(rune('a' + i))
		r := newRig(t)
		n1 := r.Node("n1", func(n *api.Node) {
			n.CSIControllerPlugins["p"].ControllerInfo = &api.CSIControllerInfo{SupportsCreateDelete: true}
		})
		n2 := r.Node("n2")
		r.Register(volumestest.Spec(id))
		r.MustPlace(volumestest.Alloc("a1", "n2", id, writer))
		r.MustClaim(id, "a1", "n2")
		if n1.Count("Controller.Publish") != 0 || n2.Count("Controller.Publish") != 1 {
			t.Fatalf("calls at n1 %v, at n2 %v", n1.Calls(), n2.Calls())
		}
	}
}

// A controller that announces what it cannot do says nothing about the volume.
func TestUnimplementedIsAskedOfAnotherController(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		id := string(rune('a' + i))
		r := newRig(t)
		n1, n2 := r.Node("n1"), r.Node("n2")
		n1.Says("Controller.Publish", codes.Unimplemented, "no such call")
		n1.Says("Controller.Unpublish", codes.Unimplemented, "no such call")
		r.Register(volumestest.Spec(id))
		r.MustPlace(volumestest.Alloc("a1", "n2", id, writer))
		r.MustClaim(id, "a1", "n2")
		r.Ends("a1", api.AllocClientStatusComplete)
		r.Unmounted(id, "a1", "n2")
		r.Free(id)
		if n2.Count("Controller.Publish") != 1 || n2.Count("Controller.Unpublish") != 1 {
			t.Fatalf("calls at n1 %v, at n2 %v", n1.Calls(), n2.Calls())
		}
	}
}

func TestUnimplementedDetachProvesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.FenceAfter = 10 * time.Millisecond })
	r.Node("n1", volumestest.NodeOnly)
	c := r.Node("n2")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	c.Says("Controller.Unpublish", codes.Unimplemented, "not any more")
	r.Down("n1", time.Minute)
	r.Ends("a1", api.AllocClientStatusLost)
	r.stuck("v", "n1", "not any more")
	r.Change("n2", func(n *api.Node) {
		n.CSIControllerPlugins["p"].ControllerInfo = &api.CSIControllerInfo{SupportsCreateDelete: true}
	})
	r.stuck("v", "n1", "no healthy controller of CSI plugin \"p\" supports PUBLISH_UNPUBLISH_VOLUME")
	c.On("Controller.Unpublish", nil)
	r.Change("n2", func(n *api.Node) { n.CSIControllerPlugins["p"].ControllerInfo.SupportsAttachDetach = true })
	r.Free("v")
}

// That a driver does not know a volume or node proves nothing, see ControllerUnpublishVolume in the CSI
// specification: it is asked in another way.
func TestDetachThatTheDriverDoesNotKnowIsVerified(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, reason string
		known        api.ControllerVerifyResponse
	}{
		{"the volume is gone", "", api.ControllerVerifyResponse{Exists: api.KnownNo}},
		{"it is not attached", "", api.ControllerVerifyResponse{Exists: api.KnownYes, Attached: api.KnownNo}},
		{"it is attached", "it is attached by ListVolumes", api.ControllerVerifyResponse{Exists: api.KnownYes, Attached: api.KnownYes, By: "ListVolumes"}},
		{"nobody knows", "detach -force", api.ControllerVerifyResponse{Exists: api.KnownYes}},
	} {
		r := newRig(t)
		n := r.Node("n1")
		n.Knows(c.known)
		n.Says("Controller.Unpublish", codes.NotFound, "no such instance")
		r.Register(volumestest.Spec("v"))
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.MustClaim("v", "a1", "n1")
		r.Ends("a1", api.AllocClientStatusComplete)
		r.Unmounted("v", "a1", "n1")
		if c.reason == "" {
			r.Free("v")
			continue
		}
		r.stuck("v", "n1", c.reason)
		n.Await(t, "Controller.Unpublish")
		if r.attachment("v", "n1") == nil {
			t.Errorf("%s, and the attachment is gone", c.what)
		}
		n.Knows(api.ControllerVerifyResponse{Attached: api.KnownNo})
		r.Free("v")
	}
}

// A call that keeps failing writes the log no faster for texts that differ each time.
func TestChangingTextsFillNoLog(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	var calls atomic.Int32
	n.On("Controller.Publish", func(context.Context, any) error {
		return volumestest.Says("Controller.Publish", codes.Unavailable, "request "+time.Now().String()+string(rune('a'+calls.Add(1)%26)))
	})
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	before := r.State.Read().Index()
	for calls.Load() < 64 {
		n.Await(t, "Controller.Publish")
	}
	if wrote := r.State.Read().Index() - before; wrote > 8 {
		t.Errorf("%d entries for %d failures", wrote, calls.Load())
	}
}

func TestRequestThatTheNodeRefusesToPutEndsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	n.Fails("Controller.Create", fault.New(fault.Invalid, "the name has a control character"))
	if err := r.Create(volumestest.Made("v")); !errors.Is(err, fault.Invalid) || n.Count("Controller.Create") != 1 {
		t.Errorf("create after %d calls: %v", n.Count("Controller.Create"), err)
	}
	n.Fails("Controller.Publish", fault.New(fault.Invalid, "the node id is too long"))
	r.Register(volumestest.Spec("w"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "w", writer))
	if _, err := r.Claim("w", "a1", "n1"); !errors.Is(err, fault.Invalid) || n.Count("Controller.Publish") != 1 {
		t.Errorf("claim after %d calls: %v", n.Count("Controller.Publish"), err)
	}
}
