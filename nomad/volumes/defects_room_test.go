package volumes_test

import (
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
)

func (r *rig) limit(what string, holds func(*api.CSILimit) bool) {
	r.t.Helper()
	keys := []state.Key{state.TableKey(state.TableNodes)}
	if err := state.Until(r.ctx(), r.state, keys, func(tx *state.Txn) bool { return holds(tx.Node("n1").CSILimits["p"]) }); err != nil {
		r.t.Fatalf("%s: %v; the limit is %+v", what, err, r.state.Read().Node("n1").CSILimits["p"])
	}
}

func none(l *api.CSILimit) bool { return l == nil }

func exactly(n int64) func(*api.CSILimit) bool {
	return func(l *api.CSILimit) bool { return l != nil && l.Volumes == n }
}

// S48: a node whose driver has no room for one more volume is known to be full until it takes one.
func TestS48ExhaustedNodeIsKnownToBeFull(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"), spec("w"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	n.fails("Controller.Publish", fault.New(fault.Internal, "something else"))
	r.mustPlace(alloc("a2", "n1", "w", writer, of("other")))
	n.await(t, "Controller.Publish")
	r.eventually("the failure is shown", func(tx *state.Txn) bool { return tx.Attachment("p", "ext-w", "n1").LastError != "" })
	r.limit("no limit is learned of another error", none)

	n.fails("Controller.Publish", fault.New(fault.Exhausted, "no more slots"))
	r.limit("one volume is all it takes", exactly(1))
	n.on("Controller.Publish", nil)
	for _, err := r.claim("w", "a2", "n1"); err != nil; _, err = r.claim("w", "a2", "n1") {
		if !errors.Is(err, fault.Exhausted) { // an attempt that was under way
			t.Fatal(err)
		}
	}
	r.limit("it took one more", none)
}

// S48: what was learned is forgotten after a while, also by a leader that did not learn it itself.
func TestS48LearnedLimitExpires(t *testing.T) {
	r := newRig(t, func(l *volumes.Limits) { l.NoRoomFor = 200 * time.Millisecond })
	n := r.node("n1")
	r.register(spec("v"))
	n.fails("Controller.Publish", fault.New(fault.Exhausted, "no more slots"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.limit("none fits", exactly(0))
	r.ends("a1", api.AllocClientStatusFailed)
	r.free("v")
	r.halt()
	r.start()
	r.limit("its time is over", none)
}

// S48: nodes report what their own drivers have no room for.
func TestS48NodeReportsNoRoom(t *testing.T) {
	r := newRig(t)
	r.node("n1", noController)
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	if _, err := r.room.Unpublish(r.ctx(), &api.VolumeUnpublishRequest{
		VolumeID: "v", AllocID: "a1", NodeID: "n1", NodeSecret: "secret-n1", Mounting: true, NoRoom: true, Error: "stage: no more slots",
	}); err != nil {
		t.Fatal(err)
	}
	r.limit("none fits", exactly(0))
}
