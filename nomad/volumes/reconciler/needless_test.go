package reconciler_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
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
	r.Halt()
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	if c := r.State.Read().Claim("default", "v", "a1", ""); !c.Attach || c.Lease != 0 {
		t.Fatalf("the claim is %+v", c)
	}
	for _, id := range []string{"n1", "n2"} {
		r.Change(id, func(n *api.Node) {
			info := *n.CSIControllerPlugins["p"].ControllerInfo
			info.SupportsAttachDetach = false
			n.CSIControllerPlugins["p"].ControllerInfo = &info
		})
	}
	r.Start()
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
