package reconciler_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func (r *rig) limit(what string, holds func(*api.CSILimit) bool) {
	r.T.Helper()
	keys := []state.Key{state.TableKey(state.TableNodes)}
	if err := state.Until(r.Context(), r.State, keys, func(tx *state.Txn) bool { return holds(tx.Node("n1").CSILimits["p"]) }); err != nil {
		r.T.Fatalf("%s: %v; the limit is %+v", what, err, r.State.Read().Node("n1").CSILimits["p"])
	}
}

func none(l *api.CSILimit) bool { return l == nil }

func exactly(n int64) func(*api.CSILimit) bool {
	return func(l *api.CSILimit) bool { return l != nil && l.Volumes == n }
}

// A node whose driver has no room for one more volume is known to be full until it takes one.
func TestExhaustedNodeIsKnownToBeFull(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"), volumestest.Spec("w"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	n.Says("Controller.Publish", codes.Internal, "something else")
	r.MustPlace(volumestest.Alloc("a2", "n1", "w", writer, volumestest.Of("other")))
	n.Await(t, "Controller.Publish")
	r.Eventually("the failure is shown", func(tx *state.Txn) bool { return tx.Attachment("p", "ext-w", "n1").LastError != "" })
	r.limit("no limit is learned of another error", none)

	n.Says("Controller.Publish", codes.ResourceExhausted, "no more slots")
	r.limit("one volume is all it takes", exactly(1))
	n.On("Controller.Publish", nil)
	for _, err := r.Claim("w", "a2", "n1"); err != nil; _, err = r.Claim("w", "a2", "n1") {
		if !errors.Is(err, fault.Exhausted) { // an attempt that was under way
			t.Fatal(err)
		}
	}
	r.limit("it took one more", none)
}

// What was learned is forgotten after a while, also by a leader that did not learn it itself.
func TestLearnedLimitExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(l *reconciler.Limits) { l.LimitExpiry = 200 * time.Millisecond })
		n := r.Node("n1")
		r.Register(volumestest.Spec("v"))
		n.Says("Controller.Publish", codes.ResourceExhausted, "no more slots")
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.limit("none fits", exactly(0))
		r.Ends("a1", api.AllocClientStatusFailed)
		r.Free("v")
		r.Halt()
		r.Start()
		r.limit("its time is over", none)
	})
}

func TestLearnedLimitExpiresThoughAClockWasFast(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1", func(n *api.Node) {
		n.CSILimits = map[string]*api.CSILimit{"p": {Volumes: 1, Until: time.Now().Add(24 * time.Hour).UnixNano()}}
	})
	r.limit("its time has not come", none)
}

// Nodes report what their own drivers have no room for.
func TestNodeReportsThatItTakesNoMore(t *testing.T) {
	r := newRig(t)
	r.Node("n1", volumestest.NoController)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	if _, err := r.Service.Unpublish(r.Context(), &api.VolumeUnpublishRequest{
		VolumeID: "v", AllocID: "a1", NodeID: "n1", NodeSecret: "secret-n1", Mounting: true, NoRoom: true, Error: "stage: no more slots",
	}); err != nil {
		t.Fatal(err)
	}
	r.limit("none fits", exactly(0))
}
