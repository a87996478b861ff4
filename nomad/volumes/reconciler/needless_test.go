package reconciler_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// A plugin that attached volumes when the claim was taken, and does not when its turn comes: the detach that was to
// cut the node off will never be. The node gets a lease with the volume instead.
func TestClaimThatIsNotAttachedAfterAllHasALease(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.FenceAfter = 10 * time.Millisecond })
	r.Node("n1")
	n2 := r.Node("n2")
	r.Register(volumestest.Spec("v"))
	r.Edit(func(tx *state.Txn) {
		a := volumestest.Alloc("a1", "n1", "v", writer)
		tx.PutAlloc(a)
		if err := ledger.Take(tx, a, nil); err != nil {
			t.Error(err)
		}
		if c := tx.Claim("default", "v", "a1", ""); !c.Attach || c.Lease != 0 {
			t.Errorf("the claim is %+v", c)
		}
		for _, id := range []string{"n1", "n2"} {
			n := *tx.Node(id)
			n.CSIControllerPlugins = without(n.CSIControllerPlugins)
			tx.PutNode(&n)
		}
	})
	if c := r.MustClaim("v", "a1", "n1").Claim; c.Lease <= 0 {
		t.Errorf("the node gets the volume without a lease: %+v", c)
	}
	r.Down("n1", time.Hour)
	r.Ends("a1", api.AllocClientStatusLost)
	r.Eventually("what it waits for is told, or it is given up", func(tx *state.Txn) bool {
		c := tx.Claim("default", "v", "a1", "")
		return c == nil || c.LastError != "" || c.State == api.ClaimUnmounted
	})
	if s := r.ClaimState("v", "a1"); s != api.ClaimReleasing || n2.Count("Controller.Unpublish") != 0 {
		t.Errorf("the claim of the lost node is %q", s)
	}
}

// A volume whose fence is its storage does not do without the attach. The words of the refusal are in the entry.
func TestVolumeFencedByItsStorageIsNotUsedWithoutAnAttach(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var said atomic.Bool
	r.Proposing = func(c fsm.Command) {
		if a, ok := c.(*commands.Attached); ok {
			said.Store(said.Load() || a.Refused != 0 && strings.Contains(a.Reason, "does not attach volumes any more"))
		}
	}
	r.Node("n1")
	v := volumestest.Spec("v")
	v.Fence = api.FenceStorage
	r.Register(v)
	r.Edit(func(tx *state.Txn) {
		a := volumestest.Alloc("a1", "n1", "v", writer)
		tx.PutAlloc(a)
		if err := ledger.Take(tx, a, nil); err != nil {
			t.Error(err)
		}
		n := *tx.Node("n1")
		n.CSIControllerPlugins = without(n.CSIControllerPlugins)
		tx.PutNode(&n)
	})
	if _, err := r.Claim("v", "a1", "n1"); err == nil || !strings.Contains(err.Error(), "does not attach volumes any more") {
		t.Errorf("the claim: %v", err)
	}
	if !said.Load() {
		t.Error("the entry does not say why")
	}
}

// without is the plugin as one that does not attach volumes.
func without(controllers map[string]*api.CSIInfo) map[string]*api.CSIInfo {
	p, info := *controllers["p"], *controllers["p"].ControllerInfo
	info.SupportsAttachDetach, p.ControllerInfo = false, &info
	return map[string]*api.CSIInfo{"p": &p}
}

// What may have been attached is not taken for what never had to be when controllers cannot attach any more.
func TestAttachOfUnknownOutcomeIsNeverNeedless(t *testing.T) {
	t.Parallel()
	for _, deposed := range []bool{false, true} {
		t.Run(fmt.Sprintf("another leader=%t", deposed), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			n := r.Node("n1")
			n.Fails("Controller.Publish", fault.New(fault.Unavailable, "the answer was lost"))
			r.Register(volumestest.Spec("v"))
			r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
			r.Eventually("it was called", func(*state.Txn) bool { return n.Count("Controller.Publish") > 0 })
			if deposed {
				r.Halt()
			}
			r.Change("n1", func(n *api.Node) { n.CSIControllerPlugins = without(n.CSIControllerPlugins) })
			if deposed {
				r.Start()
			}
			r.Eventually("what is missing is told", func(tx *state.Txn) bool {
				a := tx.Attachment("p", "ext-v", "n1")
				return a == nil || a.State != api.AttachmentPublishing || strings.Contains(a.LastError, "supports PUBLISH_UNPUBLISH_VOLUME")
			})
			if a := r.State.Read().Attachment("p", "ext-v", "n1"); a == nil || a.State != api.AttachmentPublishing || a.NotCalled {
				t.Errorf("the attachment is %+v", a)
			}
		})
	}
}

func TestAttachOfUnknownOutcomeIsNotNeedlessWhenThePluginComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	n.Fails("Controller.Publish", fault.New(fault.Unavailable, "the answer was lost"))
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	n.Await(t, "Controller.Publish")
	r.Change("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].Healthy = false })
	r.Eventually("the failure is told", func(tx *state.Txn) bool { return tx.Attachment("p", "ext-v", "n1").LastError != "" })
	r.Change("n1", func(n *api.Node) {
		n.CSIControllerPlugins = without(n.CSIControllerPlugins)
		n.CSIControllerPlugins["p"].Healthy = true
	})
	r.Eventually("what is missing is told", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a == nil || a.State != api.AttachmentPublishing || strings.Contains(a.LastError, "supports PUBLISH_UNPUBLISH_VOLUME")
	})
	if a := r.State.Read().Attachment("p", "ext-v", "n1"); a == nil || a.State != api.AttachmentPublishing || a.NotCalled {
		t.Errorf("the attachment is %+v", a)
	}
}
