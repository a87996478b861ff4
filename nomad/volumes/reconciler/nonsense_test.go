package reconciler_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
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

// Ids and topologies of a driver become keys of rows, and are shown.
func TestVolumeWhoseNamesCannotBeStoredIsNotUsed(t *testing.T) {
	t.Parallel()
	zone := func(k, v string) []*api.Topology { return []*api.Topology{{Segments: map[string]string{k: v}}} }
	for name, answer := range map[string]api.ControllerCreateResponse{
		"an id with NUL":                 {ExternalID: "ext-v\x00n1"},
		"an id with a control character": {ExternalID: "ext-\x1b[2Jv"},
		"an id that is too long":         {ExternalID: strings.Repeat("v", ids.Max+1)},
		"an id that is no text":          {ExternalID: "ext-\xff"},
		"a key of a topology":            {ExternalID: "ext-v", Topologies: zone("zo\x00ne", "a")},
		"a value of a topology":          {ExternalID: "ext-v", Topologies: zone("zone", "a\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, forAnAnswer)
			r.Node("n1").Created = answer
			wants(t, r.Create(volumestest.Made("v")), fault.Internal, "the driver's reply cannot be used")
			if v := r.State.Read().Volume("default", "v"); v == nil || v.Provision.ExternalID != "" || v.Provision.State == api.VolumeAvailable || len(v.Provision.Topologies) > 0 {
				t.Errorf("the volume is %+v", v)
			}
		})
	}
}

func TestSnapshotWhoseIDCannotBeStoredIsNotUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	r.Node("n1").SnapshotsNamed("sn\x00ap")
	r.Register(volumestest.Spec("v"))
	_, err := r.Snapshot("s")
	wants(t, err, fault.Internal, "the driver's reply cannot be used", "control character")
	for i := range r.State.Read().SnapshotIntents() {
		if i.SnapshotID != "" {
			t.Errorf("the intent is %+v", i)
		}
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

// Another driver does not know what the owner of the plugin id has attached: that it does not find the volume proves no
// detach.
func TestAnotherDriverDoesNotProveADetach(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	n.Says("Controller.Unpublish", codes.NotFound, "no such volume")
	n.Knows(api.ControllerVerifyResponse{Exists: api.KnownNo, By: "a test"})
	r.becomes("n1", "another")
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v", "a1", "n1")
	r.Eventually("the attachment shows the reason", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a == nil || strings.Contains(a.LastError, `belongs to driver "prov"`)
	})
	if n.Count("Controller.Unpublish")+n.Count("Controller.Verify") > 0 {
		t.Errorf("the other driver is called: %v", n.Calls())
	}
	r.becomes("n1", "prov")
	r.Free("v")
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

// A driver that ignores names answers one snapshot to two requests: it is that of the first, and stays when the second is
// given up.
func TestSnapshotOfAnotherRequestIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string][]codes.Code{
		"wanted":   nil,
		"given up": {codes.DeadlineExceeded, codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			n := r.Node("n1")
			n.ReadyAfter(1 << 30)
			p := provide(n)
			r.Register(volumestest.Spec("v"))
			if _, err := r.Snapshot("first"); err != nil {
				t.Fatal(err)
			}
			p.script("Controller.Snapshot", 0, answers...)
			n.On("Controller.Snapshot", func(_ context.Context, q any) error {
				if q.(*api.ControllerSnapshotRequest).Name == "first" {
					return nil
				}
				return p.call("Controller.Snapshot", func() {})
			})
			if _, err := r.Snapshot("second"); err == nil {
				t.Error("the second is made")
			}
			keys := []state.Key{state.TableKey(state.TableSnapshots)}
			if err := state.Until(r.Context(), r.State, keys, func(tx *state.Txn) bool { return tx.SnapshotIntent("p", "second", false) == nil }); err != nil {
				t.Fatal("the second does not end")
			}
			if i := r.State.Read().SnapshotIntent("p", "snap", true); i != nil {
				t.Errorf("the first is to be deleted: %+v", i)
			}
		})
	}
}
