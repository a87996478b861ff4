package reconciler_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// What a driver makes is not what was asked for: nobody uses it, and giving the creation up deletes it.
func TestVolumeThatIsNotWhatWasAskedForIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer api.ControllerCreateResponse
		says   string
	}{
		"too small":           {api.ControllerCreateResponse{CapacityBytes: 50}, "50 bytes, of at least 100"},
		"of something else":   {api.ControllerCreateResponse{OtherSource: true}, "not made from"},
		"too large is enough": {api.ControllerCreateResponse{CapacityBytes: 500}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, forAnAnswer)
			n := r.Node("n1")
			p := provide(n)
			n.Created = c.answer
			spec := volumestest.Made("v")
			spec.SnapshotID = "snap"
			switch err := r.Create(spec); {
			case c.says == "" && err != nil:
				t.Fatal(err)
			case c.says != "":
				wants(t, err, fault.Internal, c.says, "`nomad volume delete v`")
				if r.Place(volumestest.Alloc("a1", "n1", "v", writer)) == nil {
					t.Error("it is used")
				}
			}
			if err := r.Delete("v"); err != nil {
				t.Error(err)
			}
			if left := p.list(); len(left) > 0 {
				t.Errorf("at the provider: %v", left)
			}
		})
	}
}

// A copy that is its own source would be written, and deleted, with it; and so would a volume that was made for somebody
// else by another name.
func TestVolumeOfAnotherIsNoAnswerToACreation(t *testing.T) {
	t.Parallel()
	for name, clone := range map[string]string{"the source of a copy": "ext-other", "made by another name": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, forAnAnswer)
			n := r.Node("n1")
			p := provide(n)
			if clone == "" {
				if err := r.Create(volumestest.Made("other")); err != nil {
					t.Fatal(err)
				}
			}
			n.Created.ExternalID = "ext-other"
			spec := volumestest.Made("v")
			spec.CloneID = clone
			wants(t, r.Create(spec), fault.Internal, "cannot be used")
			n.Knows(api.ControllerVerifyResponse{Exists: api.KnownNo, By: "a test"})
			_ = r.Delete("v")
			r.Eventually("it is given up", func(tx *state.Txn) bool { return tx.Volume("default", "v") == nil })
			if n.Count("Controller.Delete") > 0 {
				t.Errorf("what is another's is deleted, and left are %v", p.list())
			}
		})
	}
}

// A snapshot of another volume that has the name would be taken for a copy of this one.
func TestSnapshotOfAnotherVolumeIsNoAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	p := provide(n)
	n.SnapshotsOf("ext-w")
	r.Register(volumestest.Spec("v"))
	_, err := r.Snapshot("s")
	wants(t, err, fault.Conflict, "is of volume ext-w")
	r.noIntents()
	if left := p.list(); len(left) != 1 || n.Count("Controller.SnapshotDelete") != 0 {
		t.Errorf("at the provider: %v", left)
	}
}

// A driver that cuts anew with each call would never end, and its user has one of the snapshots only.
func TestSnapshotIsNotCutOnceMoreWhileItIsNotReady(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	n.ReadyAfter(1 << 30)
	r.Register(volumestest.Spec("v"))
	if _, err := r.Snapshot("s"); err != nil {
		t.Fatal(err)
	}
	n.SnapshotsNamed("another")
	r.noIntents()
	_, err := r.deleteSnapshot("s", false)
	if err != nil || n.Count("Controller.SnapshotDelete") != 1 { // only what is asked for
		t.Errorf("%v; calls are %v", err, n.Calls())
	}
}

// An expansion that nodes could not follow is asked for again, and takes nothing back.
func TestExpansionAsksForNoLessThanTheVolumeHas(t *testing.T) {
	t.Parallel()
	r, n := used(t)
	n.Grows(api.ControllerExpandResponse{NodeExpansionRequired: true})
	n.Says("NodeVolume.Expand", codes.OutOfRange, "the file system cannot grow")
	if err := r.grow("v"); err != nil {
		t.Fatal(err)
	}
	r.Eventually("nothing is owed", func(*state.Txn) bool { return len(r.owed("v")) == 0 })
	asked := make(chan int64, 1)
	n.On("Controller.Expand", func(_ context.Context, q any) error {
		asked <- q.(*api.ControllerExpandRequest).CapacityMinBytes
		return nil
	})
	smaller := volumestest.Made("v")
	smaller.RequestedCapacityMin = 200
	if err := r.Create(smaller); err != nil {
		t.Fatal(err)
	}
	if least, d := <-asked, r.Get("v"); least != 300 || d.Capacity != 300 {
		t.Errorf("asked for %d bytes, and it has %d", least, d.Capacity)
	}
}

// A list whose pages go on with themselves has no end.
func TestListThatGoesOnWithTheSamePageIsAnError(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	n.Lists(api.ControllerListResponse{NextToken: "2"}, api.ControllerSnapshotListResponse{NextToken: "2", Snapshots: []*api.Snapshot{nil}})
	for token, class := range map[string]fault.Class{"1": 0, "2": fault.Internal} {
		_, volumes := r.Service.ListExternal(r.Context(), &api.VolumeExternalListRequest{PluginID: "p", QueryOptions: api.QueryOptions{NextToken: token}})
		_, snapshots := r.Service.ListSnapshots(r.Context(), &api.SnapshotListRequest{PluginID: "p", QueryOptions: api.QueryOptions{NextToken: token}})
		for _, err := range []error{volumes, snapshots} {
			if fault.Of(err) != class && (err != nil || class != 0) {
				t.Errorf("the page after %q: %v", token, err)
			}
		}
	}
}
