package volumes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// A snapshot that its driver does not answer is shown before something is refused because of it.
func TestSnapshotsUnderWayAreShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	n.Fails("Controller.Snapshot", fault.New(fault.Unavailable, "the provider is away"))
	r.Register(volumestest.Spec("v"), volumestest.Spec("w"))
	if _, err := r.Snapshot("s"); err == nil {
		t.Fatal("it is made")
	}
	list := func() []*api.SnapshotUnderWay {
		out, err := r.Service.ListSnapshots(r.Context(), &api.SnapshotListRequest{PluginID: "p"})
		if err != nil {
			t.Fatal(err)
		}
		return out.UnderWay
	}
	for where, got := range map[string][]*api.SnapshotUnderWay{"the volume": r.Get("v").Snapshots, "the list": list()} {
		if len(got) != 1 || got[0].Name != "s" || got[0].Source != "ext-v" || got[0].State != "being made" || got[0].Since == 0 ||
			!strings.Contains(got[0].LastError, "the provider is away") || got[0].Remedy != "nomad volume snapshot delete p s" {
			t.Errorf("%s shows %+v", where, got)
		}
	}
	if got := r.Get("w").Snapshots; len(got) > 0 {
		t.Errorf("another volume shows %+v", got[0])
	}
	if _, err := r.Service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{PluginID: "p", ID: "s"}); err != nil && !strings.Contains(err.Error(), "away") {
		t.Fatal(err)
	}
	if got := list(); len(got) != 1 || got[0].State != "given up" || got[0].Remedy != "nomad volume snapshot delete -force p s" {
		t.Errorf("given up, the list shows %+v", got)
	}
}

// Of an allocation whose node is disconnected nobody knows whether it runs, and stopping its job does not make it stop.
func TestHolderOnADisconnectedNodeIsSaidToBeSo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Edit(func(tx *state.Txn) {
		a := *tx.Alloc("a1")
		a.ClientStatus = api.AllocClientStatusUnknown
		tx.PutAlloc(&a)
		n := *tx.Node("n1")
		n.Status = api.NodeStatusDisconnected
		tx.PutNode(&n)
	})
	if err := r.Delete("v"); err == nil || !strings.Contains(err.Error(), "disconnected") || strings.Contains(err.Error(), "it is free when that allocation stops") {
		t.Errorf("the volume is held by one that: %v", err)
	}
	err := r.Place(volumestest.Alloc("a2", "n1", "v", writer, volumestest.Of("other")))
	if err == nil || !strings.Contains(err.Error(), "disconnected") || !strings.Contains(err.Error(), "`nomad job stop job` ends that") {
		t.Errorf("the next one is told: %v", err)
	}
}

// The id of a snapshot to be deleted becomes the key of a row.
func TestIDOfASnapshotToBeDeletedCanBeStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	for _, id := range []string{"sn\x00ap", "sn\x1bap", strings.Repeat("s", ids.Max+1)} {
		for _, force := range []bool{false, true} {
			_, err := r.Service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{PluginID: "p", ID: id, Force: force})
			if fault.Of(err) != fault.Invalid {
				t.Errorf("%.20q: %.200v", id, err)
			}
		}
	}
	if n.Count("Controller.SnapshotDelete") > 0 || r.Intents() > 0 {
		t.Errorf("the driver is asked: %v", n.Calls())
	}
	if _, err := r.Service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{PluginID: "p", ID: strings.Repeat("s", 1000)}); err != nil {
		t.Error(err)
	}
}

// A volume that thousands use is not refused with all their names.
func TestOfManyHoldersTheFirstIsNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1")
	r.Register(volumestest.Spec("v", api.AccessMultiNodeMultiWriter))
	for i := range 8 {
		id := fmt.Sprintf("a%d", i)
		r.MustPlace(volumestest.Alloc(id, "n1", "v", api.AccessMultiNodeMultiWriter, volumestest.Of("job-"+id)))
	}
	err := r.Delete("v")
	if err == nil || !strings.Contains(err.Error(), "allocation a0 ") || strings.Contains(err.Error(), "allocation a1 ") || !strings.HasSuffix(err.Error(), ", and 7 more") {
		t.Errorf("the refusal: %v", err)
	}
}
