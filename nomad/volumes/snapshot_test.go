package volumes_test

import (
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func (r *rig) intents() (n int) {
	for range r.state.Read().SnapshotIntents() {
		n++
	}
	return n
}

func (r *rig) snapshot(name string) (*api.SnapshotListResponse, error) {
	return r.room.CreateSnapshots(r.ctx(), &api.SnapshotCreateRequest{Snapshots: []*api.Snapshot{{SourceVolumeID: "v", Name: name}}})
}

func TestSnapshotsAreFinishedByTheNextLeader(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	n.fails("Controller.Snapshot", fault.New(fault.Unavailable, "storage does not answer"))
	if _, err := r.snapshot("s"); !errors.Is(err, fault.Unavailable) {
		t.Fatalf("answer %v", err)
	}
	if r.intents() != 1 {
		t.Fatalf("%d intents after an answer of unknown outcome", r.intents())
	}
	r.halt()
	before := n.count("Controller.Snapshot")
	n.on("Controller.Snapshot", nil)
	r.start()
	if err := state.Until(r.ctx(), r.state, []state.Key{state.TableKey(state.TableSnapshots)}, func(*state.Txn) bool { return r.intents() == 0 }); err != nil {
		t.Fatal(err)
	}
	if n.count("Controller.Snapshot") != before+1 {
		t.Errorf("calls %v", n.calls)
	}
	out, err := r.snapshot("s")
	if err != nil || out.Snapshots[0].Name != "s" || out.Snapshots[0].ID != "snap" {
		t.Errorf("the same name answers %+v %v", out, err)
	}
}

func TestRefusedSnapshotLeavesNoIntent(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	n.fails("Controller.Snapshot", fault.New(fault.Exhausted, "no room for snapshots"))
	if _, err := r.snapshot("s"); !errors.Is(err, fault.Exhausted) {
		t.Errorf("answer %v", err)
	}
	n.fails("Controller.SnapshotDelete", fault.New(fault.Conflict, "in use"))
	if _, err := r.room.DeleteSnapshot(r.ctx(), &api.SnapshotDeleteRequest{ID: "snap", PluginID: "p"}); !errors.Is(err, fault.Conflict) {
		t.Errorf("answer %v", err)
	}
	if r.intents() != 0 {
		t.Errorf("%d intents are left", r.intents())
	}
}

func TestSnapshotWithoutANameGetsOne(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	r.register(spec("v"))
	out, err := r.snapshot("")
	if err != nil || out.Snapshots[0].Name == "" {
		t.Errorf("answer %+v %v", out, err)
	}
}
