package reconciler_test

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// A snapshot that is cut but not ready yet is asked for again until it is.
func TestSnapshotsArePolledUntilReady(t *testing.T) {
	r := newRig(t, func(l *reconciler.Limits) { l.Patience = 10 * time.Second })
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	n.ReadyAfter(3)
	out, err := r.Snapshot("s")
	if err != nil || !out.Snapshots[0].IsReady || n.Count("Controller.Snapshot") != 3 {
		t.Fatalf("after %d calls: %+v, %v", n.Count("Controller.Snapshot"), out, err)
	}
}

// One that takes longer than callers wait is answered as it is, and is followed until it is ready.
func TestSlowSnapshotIsFollowedUntilItIsReady(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	n.ReadyAfter(1 << 30)
	out, err := r.Snapshot("s")
	if err != nil || out.Snapshots[0].IsReady || out.Snapshots[0].ID != "snap" {
		t.Fatalf("answer %+v, %v", out, err)
	}
	if i := r.State.Read().SnapshotIntent("p", "s", false); i == nil || i.SnapshotID != "snap" {
		t.Fatalf("the intent is %+v", i)
	}
	r.Halt()
	r.Start()
	n.ReadyAfter(1)
	if err := state.Until(r.Context(), r.State, []state.Key{state.TableKey(state.TableSnapshots)}, func(*state.Txn) bool { return r.Intents() == 0 }); err != nil {
		t.Fatal(err)
	}
	if out, err := r.Service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{ID: "snap", PluginID: "p"}); err != nil {
		t.Errorf("delete %+v, %v", out, err)
	}
}

func TestSnapshotsAreFinishedByTheNextLeader(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	n.Says("Controller.Snapshot", codes.Unavailable, "storage does not answer")
	if _, err := r.Snapshot("s"); !errors.Is(err, fault.Unavailable) {
		t.Fatalf("answer %v", err)
	}
	if r.Intents() != 1 {
		t.Fatalf("%d intents after an answer of unknown outcome", r.Intents())
	}
	r.Halt()
	before := n.Count("Controller.Snapshot")
	n.On("Controller.Snapshot", nil)
	r.Start()
	if err := state.Until(r.Context(), r.State, []state.Key{state.TableKey(state.TableSnapshots)}, func(*state.Txn) bool { return r.Intents() == 0 }); err != nil {
		t.Fatal(err)
	}
	if n.Count("Controller.Snapshot") != before+1 {
		t.Errorf("calls %v", n.Calls())
	}
	out, err := r.Snapshot("s")
	if err != nil || out.Snapshots[0].Name != "s" || out.Snapshots[0].ID != "snap" {
		t.Errorf("the same name answers %+v %v", out, err)
	}
}
