package reconciler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func TestFailedUnmountKeepsTheClaim(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Ends("a1", api.AllocClientStatusComplete)
	if err := r.Report("v", "a1", "n1", "target is busy"); err != nil {
		t.Fatal(err)
	}
	c := r.State.Read().Claim("default", "v", "a1", "")
	if c == nil || c.State != api.ClaimReleasing || c.LastError != "target is busy" || n.Count("Controller.Unpublish") != 0 {
		t.Fatalf("claim is %+v", c)
	}
	before := r.State.Read().Index()
	if err := r.Report("v", "a1", "n1", "target is busy"); err != nil || r.State.Read().Index() != before {
		t.Fatalf("the same error is written again: %v", err)
	}
	r.Unmounted("v", "a1", "n1")
	r.Free("v")
	if n.Count("Controller.Unpublish") != 1 {
		t.Fatalf("calls are %v", n.Calls())
	}
}

func TestReleaseNeedsNothingOfTheNode(t *testing.T) {
	r := newRig(t)
	r.Node("n1", volumestest.NodeOnly)
	n2 := r.Node("n2")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	var asked string
	n2.On("Controller.Unpublish", func(_ context.Context, req any) error {
		asked = req.(*api.ControllerUnpublishRequest).ProviderNodeID
		return nil
	})
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Edit(func(tx *state.Txn) { tx.DeleteNode("n1"); tx.DeleteAlloc("a1") })
	r.Edit(func(tx *state.Txn) { // the node's row went long ago
		c := *tx.Claim("default", "v", "a1", "")
		c.Since = time.Now().Add(-time.Hour).UnixNano()
		tx.PutClaim(&c)
	})
	r.Free("v")
	if asked != "provider-n1" {
		t.Fatalf("the driver was asked about node %q", asked)
	}
}

func TestNodeThatForgetsToReportIsAskedOnceItsTaskEnded(t *testing.T) {
	r := newRig(t, func(l *reconciler.Limits) { l.UnmountAfter = time.Millisecond })
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"), volumestest.Spec("w"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.MustPlace(volumestest.Alloc("a2", "n1", "w", writer))
	r.MustClaim("w", "a2", "n1")
	r.Edit(func(tx *state.Txn) {
		a := *tx.Alloc("a1")
		a.DesiredStatus = api.AllocDesiredStatusStop
		tx.PutAlloc(&a)
		if err := ledger.AllocChanged(tx, &a); err != nil {
			t.Error(err)
		}
	})
	// The other volume is freed after the first was looked at.
	r.Ends("a2", api.AllocClientStatusComplete)
	r.Free("w")
	if s := r.ClaimState("v", "a1"); s != api.ClaimReleasing || n.Count("NodeVolume.Detach") != 1 {
		t.Fatalf("the claim is %q, the node was asked %d times", s, n.Count("NodeVolume.Detach"))
	}
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Free("v")
}

func TestNodeThatForgetsToReportIsAsked(t *testing.T) {
	r := newRig(t, func(l *reconciler.Limits) { l.UnmountAfter = time.Millisecond })
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	n.Says("NodeVolume.Detach", codes.Internal, "busy")
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Eventually("the reason is shown", func(tx *state.Txn) bool {
		c := tx.Claim("default", "v", "a1", "")
		return c != nil && strings.Contains(c.LastError, "busy")
	})
	n.On("NodeVolume.Detach", nil)
	r.Free("v")
}

// TestStopFreesTheClaimWithoutPolling is the release path with a driver that answers at once: what is
// left is our own delay.
func TestStopFreesTheClaimWithoutPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.Node("n1")
		r.Register(volumestest.Spec("v"))
		const rounds = 50
		var took time.Duration
		for i := range rounds {
			id := fmt.Sprintf("a%d", i)
			r.MustPlace(volumestest.Alloc(id, "n1", "v", writer))
			r.MustClaim("v", id, "n1")
			r.Ends(id, api.AllocClientStatusComplete)
			start := time.Now()
			r.Unmounted("v", id, "n1")
			r.Eventually("the claim is free", func(tx *state.Txn) bool { return tx.Claim("default", "v", id, "") == nil })
			took += time.Since(start)
		}
		if took > 0 {
			t.Errorf("%d reports waited %v together", rounds, took)
		}
	})
}
