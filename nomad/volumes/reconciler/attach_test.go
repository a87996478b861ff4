package reconciler_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// The claim is told what the driver said, keeps its place until its allocation is over, and leaves nothing.
func TestFinalAnswerToAnAttachFailsTheClaim(t *testing.T) {
	for code, class := range map[codes.Code]fault.Class{
		codes.InvalidArgument: fault.Invalid, codes.PermissionDenied: fault.Denied, codes.AlreadyExists: fault.Conflict,
		codes.NotFound: fault.NotFound, codes.ResourceExhausted: fault.Exhausted, codes.Internal: fault.Conflict,
	} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			n := r.Node("n1")
			r.Register(volumestest.Spec("v"))
			n.Says("Controller.Publish", code, "the volume has three heads")
			r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
			_, err := r.Claim("v", "a1", "n1")
			if !errors.Is(err, class) || !strings.Contains(err.Error(), "three heads") || !strings.Contains(err.Error(), `"v"`) {
				t.Fatalf("claim: %v", err)
			}
			tries := n.Count("Controller.Publish")
			r.Halt()
			r.Start()
			_, err = r.Claim("v", "a1", "n1")
			if !errors.Is(err, class) {
				t.Fatalf("the next leader says %v", err)
			}
			n.On("Controller.Publish", nil)
			r.Ends("a1", api.AllocClientStatusFailed)
			r.Free("v")
			if n.Count("Controller.Publish") != tries || n.Count("Controller.Unpublish") != 1 {
				t.Errorf("calls are %v: %d publishes before the answer", n.Calls(), tries)
			}
			if class == fault.Exhausted { // the limit that it taught stays for a while
				r.Change("n1", func(n *api.Node) { n.CSILimits = nil })
			}
			r.MustPlace(volumestest.Alloc("a2", "n1", "v", writer))
			r.MustClaim("v", "a2", "n1")
		})
	}
}

func TestConflictAtAttachPasses(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	n.Says("Controller.Publish", codes.FailedPrecondition, "still attached elsewhere")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	for range 5 {
		n.Await(t, "Controller.Publish")
	}
	n.On("Controller.Publish", nil)
	r.MustClaim("v", "a1", "n1")
}

func TestDetachWaitsForAController(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	// The controller stops, and what is left of it says that nothing is supported.
	r.Change("n1", func(n *api.Node) {
		n.CSIControllerPlugins["p"].Healthy = false
		n.CSIControllerPlugins["p"].ControllerInfo = &api.CSIControllerInfo{}
	})
	r.Unmounted("v", "a1", "n1")
	r.Eventually("the reason is shown", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && strings.Contains(a.LastError, "no healthy controller")
	})
	if r.ClaimState("v", "a1") != api.ClaimUnmounted || n.Count("Controller.Unpublish") != 0 {
		t.Fatalf("claim is %q", r.ClaimState("v", "a1"))
	}
	r.Node("n2", volumestest.NodeOnly)
	if err := r.Place(volumestest.Alloc("b1", "n2", "v", writer, volumestest.Of("other"))); !errors.Is(err, fault.Conflict) {
		t.Fatalf("another node gets the volume before it is detached: %v", err)
	}
	r.Change("n1", func(n *api.Node) {
		n.CSIControllerPlugins["p"].Healthy = true
		n.CSIControllerPlugins["p"].ControllerInfo = &api.CSIControllerInfo{SupportsAttachDetach: true}
	})
	n.Await(t, "Controller.Unpublish")
}

func TestAttachIsIntendedBeforeAnyControllerIsSeen(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.Change("n1", func(n *api.Node) { n.CSIControllerPlugins = nil })
	if d := r.Get("v"); !d.ControllerRequired || d.Schedulable {
		t.Fatalf("controller required %v, schedulable %v", d.ControllerRequired, d.Schedulable)
	}
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	if s := r.ClaimState("v", "a1"); s != api.ClaimTaken {
		t.Fatalf("without a controller the claim is %q", s)
	}
}

// What was never asked of a driver needs no driver to undo, whatever its plugin turns out to be.
func TestAttachThatWasNotCalledIsUndoneWithoutAController(t *testing.T) {
	for what, come := range map[string]func(*api.CSIInfo){
		"no controller":                     nil,
		"a controller that does not attach": func(c *api.CSIInfo) { c.ControllerInfo.SupportsAttachDetach = false },
		"a controller that attaches":        func(*api.CSIInfo) {},
	} {
		r := newRig(t)
		n := r.Node("n1")
		r.Register(volumestest.Spec("v"))
		controllers := r.State.Read().Node("n1").CSIControllerPlugins
		r.Change("n1", func(n *api.Node) { n.CSIControllerPlugins = nil })
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.Ends("a1", api.AllocClientStatusFailed)
		if come != nil {
			r.Change("n1", func(n *api.Node) {
				n.CSIControllerPlugins = controllers
				come(n.CSIControllerPlugins["p"])
			})
		}
		r.Free("v")
		if calls := n.Count("Controller.Unpublish") + n.Count("Controller.Publish"); calls != 0 {
			t.Errorf("%s: %d calls", what, calls)
		}
	}
}

func TestAttachAndDetachOfANodeNeverCross(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	release := n.Hold("Controller.Publish")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	n.Await(t, "Controller.Publish")
	r.Ends("a1", api.AllocClientStatusFailed)
	r.MustPlace(volumestest.Alloc("b1", "n1", "v", writer, volumestest.Of("other")))
	if n.Count("Controller.Unpublish") != 0 {
		t.Fatal("detach while the attach is under way")
	}
	release()
	r.MustClaim("v", "b1", "n1")
	want := []string{"Controller.Validate", "Controller.Publish", "Controller.Unpublish", "Controller.Publish"}
	if strings.Join(n.Calls(), " ") != strings.Join(want, " ") {
		t.Fatalf("calls are %v", n.Calls())
	}
	if n.Fences()[0] >= n.Fences()[1] {
		t.Fatalf("fences do not grow: %v", n.Fences())
	}
}

func TestFailedAttachOfAnAllocThatEndsIsUndone(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	n.Says("Controller.Publish", codes.DeadlineExceeded, "outcome unknown")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	n.Await(t, "Controller.Publish")
	r.Ends("a1", api.AllocClientStatusFailed)
	r.Free("v")
	if n.Count("Controller.Unpublish") == 0 {
		t.Fatal("a publish of unknown outcome was not undone")
	}
}

// The secrets of the attachment reach its detachment, also when the volume is forgotten meanwhile.
func TestSecretsReachTheDetach(t *testing.T) {
	for _, forget := range []bool{false, true} {
		r := newRig(t)
		n := r.Node("n1")
		on, off := volumestest.Watch[api.ControllerPublishRequest](n, "Controller.Publish"), volumestest.Watch[api.ControllerUnpublishRequest](n, "Controller.Unpublish")
		v := volumestest.Spec("v")
		v.Secrets = map[string]string{"key": "value"}
		r.Register(v)
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.MustClaim("v", "a1", "n1")
		r.Ends("a1", api.AllocClientStatusComplete)
		if forget {
			if _, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v", Force: true}); err != nil {
				t.Fatal(err)
			}
		}
		r.Unmounted("v", "a1", "n1")
		r.Free("v")
		if a, b := on.Only(t), off.Only(t); a.Secrets["key"] != "value" || b.Secrets["key"] != "value" {
			t.Errorf("forgotten %v: attached with %v, detached with %v", forget, a.Secrets, b.Secrets)
		}
	}
}

// The job's mount options are in the attachment, the volume's in its validation.
func TestMountOptionsReachTheController(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	checked, on := volumestest.Watch[api.ControllerValidateRequest](n, "Controller.Validate"), volumestest.Watch[api.ControllerPublishRequest](n, "Controller.Publish")
	v := volumestest.Spec("v")
	v.MountOptions = &api.MountOptions{FSType: "xfs", MountFlags: []string{"noatime"}}
	r.Register(v)
	if o := checked.Only(t).MountOptions; o == nil || o.FSType != "xfs" || len(o.MountFlags) != 1 {
		t.Errorf("validated with %+v", o)
	}
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer, func(a *api.Allocation) {
		a.Job.TaskGroups[0].Volumes["data"].MountOptions = &api.MountOptions{MountFlags: []string{"ro"}}
	}))
	r.MustClaim("v", "a1", "n1")
	if o := on.Only(t).MountOptions; o == nil || o.FSType != "xfs" || len(o.MountFlags) != 1 || o.MountFlags[0] != "ro" {
		t.Errorf("attached with %+v", o)
	}
}

// What the driver answered to the attachment is kept, so that a node that starts anew and a server
// that takes over need no second call.
func TestPublishContextIsKept(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	if got := r.MustClaim("v", "a1", "n1").PublishContext["device"]; got != "/dev/ext-v" {
		t.Fatalf("context is %q", got)
	}
	r.Halt()
	r.Start()
	if got := r.MustClaim("v", "a1", "n1").PublishContext["device"]; got != "/dev/ext-v" {
		t.Errorf("context is %q after the restart", got)
	}
	if c := n.Count("Controller.Publish"); c != 1 {
		t.Errorf("attached %d times", c)
	}
}

// A stop that the servers and the node both tell of is one detachment.
func TestOneDetachmentPerStop(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Ends("a1", api.AllocClientStatusComplete)
	var reports sync.WaitGroup
	for range 4 {
		reports.Go(func() {
			if err := r.Report("v", "a1", "n1", ""); err != nil {
				t.Error(err)
			}
		})
	}
	if err := r.Reconciler.Settle(r.Context()); err != nil {
		t.Fatal(err)
	}
	reports.Wait()
	r.Free("v")
	if c := n.Count("Controller.Unpublish"); c != 1 {
		t.Errorf("detached %d times", c)
	}
	// A later attachment is not touched by anything left of the earlier one.
	r.MustPlace(volumestest.Alloc("a2", "n1", "v", writer))
	r.MustClaim("v", "a2", "n1")
	if err := r.Report("v", "a1", "n1", ""); err != nil {
		t.Fatal(err)
	}
	if s := r.ClaimState("v", "a2"); s != api.ClaimReady || n.Count("Controller.Unpublish") != 1 {
		t.Errorf("claim is %q after %d detachments", s, n.Count("Controller.Unpublish"))
	}
}

// Users of the volume that come while it grows wait until it has grown.
func TestAttachmentWaitsForOfflineExpansion(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].ControllerInfo.OfflineExpansion = true })
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	grow := n.Hold("Controller.Expand")
	bigger := volumestest.Made("v")
	bigger.RequestedCapacityMin = 300
	done := make(chan error, 1)
	go func() { done <- r.Create(bigger) }()
	n.Await(t, "Controller.Expand")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	if c := n.Count("Controller.Publish"); c != 0 {
		t.Errorf("attached %d times while it grows", c)
	}
	grow()
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.MustClaim("v", "a1", "n1")
}
