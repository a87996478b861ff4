package volumes_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
)

// P9: a snapshot that is cut but not ready yet is asked for again until it is.
func TestP9SnapshotsArePolledUntilReady(t *testing.T) {
	r := newRig(t, func(l *volumes.Limits) { l.Patience = 10 * time.Second })
	n := r.node("n1")
	r.register(spec("v"))
	n.readyAfter(3)
	out, err := r.snapshot("s")
	if err != nil || !out.Snapshots[0].IsReady || n.count("Controller.Snapshot") != 3 {
		t.Fatalf("after %d calls: %+v, %v", n.count("Controller.Snapshot"), out, err)
	}
}

// P9: one that takes longer than callers wait is answered as it is, and is asked for no more.
func TestP9SlowSnapshotIsAnsweredAsItIs(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	n.readyAfter(1 << 30)
	out, err := r.snapshot("s")
	if err != nil || out.Snapshots[0].IsReady || out.Snapshots[0].ID != "snap" {
		t.Fatalf("answer %+v, %v", out, err)
	}
	if err := state.Until(r.ctx(), r.state, []state.Key{state.TableKey(state.TableSnapshots)}, func(*state.Txn) bool { return r.intents() == 0 }); err != nil {
		t.Fatal(err)
	}
	if out, err := r.room.DeleteSnapshot(r.ctx(), &api.SnapshotDeleteRequest{ID: "snap", PluginID: "p"}); err != nil {
		t.Errorf("delete %+v, %v", out, err)
	}
}
