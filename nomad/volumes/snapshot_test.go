package volumes_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func TestSnapshotsNameTheirSource(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	out, err := r.Service.CreateSnapshots(r.Context(), &api.SnapshotCreateRequest{Snapshots: []*api.Snapshot{{SourceVolumeID: "v", Name: "s"}}})
	if err != nil || len(out.Snapshots) != 1 {
		t.Fatalf("answer is %v, %v", out, err)
	}
	if s := out.Snapshots[0]; s.SourceVolumeID != "v" || s.PluginID != "p" || s.ID != "snap" {
		t.Fatalf("snapshot is %+v", s)
	}
	if _, err := r.Service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{ID: "snap", PluginID: "p"}); err != nil || n.Count("Controller.SnapshotDelete") != 1 {
		t.Fatalf("error is %v", err)
	}
	if _, err := r.Service.CreateSnapshots(r.Context(), &api.SnapshotCreateRequest{Snapshots: []*api.Snapshot{{SourceVolumeID: "absent"}}}); !errors.Is(err, fault.NotFound) {
		t.Fatalf("error is %v", err)
	}
}

func TestRefusedSnapshotLeavesNoIntent(t *testing.T) {
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	n.Says("Controller.Snapshot", codes.ResourceExhausted, "no room for snapshots")
	if _, err := r.Snapshot("s"); !errors.Is(err, fault.Exhausted) {
		t.Errorf("answer %v", err)
	}
	n.Says("Controller.SnapshotDelete", codes.FailedPrecondition, "in use")
	if _, err := r.Service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{ID: "snap", PluginID: "p"}); !errors.Is(err, fault.Conflict) {
		t.Errorf("answer %v", err)
	}
	if err := state.Until(r.Context(), r.State, []state.Key{state.TableKey(state.TableSnapshots)}, func(*state.Txn) bool { return r.Intents() == 0 }); err != nil {
		t.Errorf("%d intents are left: %v", r.Intents(), err)
	}
}

func TestSnapshotRequestsAreBoundedBeforeTheLog(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	large := map[string]string{"k": strings.Repeat("x", 5000)}
	before := r.State.Read().Index()
	for _, s := range []*api.Snapshot{{Name: strings.Repeat("n", 129)}, {Parameters: large}, {Secrets: large}} {
		s.SourceVolumeID = "v"
		if _, err := r.Service.CreateSnapshots(r.Context(), &api.SnapshotCreateRequest{Snapshots: []*api.Snapshot{s}}); !errors.Is(err, fault.Invalid) {
			t.Errorf("error is %v", err)
		}
	}
	if _, err := r.Service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{ID: "snap", PluginID: "p", Secrets: large}); !errors.Is(err, fault.Invalid) {
		t.Errorf("error is %v", err)
	}
	if now := r.State.Read().Index(); now != before {
		t.Errorf("%d entries were written", now-before)
	}
}

func TestSnapshotWithoutANameGetsOne(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	out, err := r.Snapshot("")
	if err != nil || out.Snapshots[0].Name == "" {
		t.Errorf("answer %+v %v", out, err)
	}
}
