package reconciler_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// becomes has the controller of n1 be that of another driver.
func (r *rig) becomes(driver string) {
	r.T.Helper()
	r.Change("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].Provider = driver })
}

// becomesWhileAsked has the driver be another one by the time that it answers a method, once.
func (r *rig) becomesWhileAsked(n *volumestest.Node, method string) {
	var once sync.Once
	n.On(method, func(context.Context, any) error {
		once.Do(func() { r.becomes("another") })
		return nil
	})
}

func grown(id string) *api.VolumeSpec {
	v := volumestest.Spec(id)
	v.RequestedCapacityMin = 1000
	return v
}

// Another driver may have another volume by that id, and would grow that.
func TestAnotherDriverDoesNotExpand(t *testing.T) {
	t.Parallel()
	expand := func(r *rig) error {
		_, err := r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{grown("v")}})
		return err
	}
	start := func(t *testing.T) (*rig, *volumestest.Node) {
		r := newRig(t, forAnAnswer)
		n := r.Node("n1")
		r.Register(volumestest.Spec("v"))
		n.Knows(api.ControllerVerifyResponse{Exists: api.KnownYes, CapacityBytes: 5000, By: "a test"})
		return r, n
	}
	t.Run("it is not asked", func(t *testing.T) {
		t.Parallel()
		r, n := start(t)
		r.becomes("another")
		wants(t, expand(r), fault.Conflict, `is driver "another" now`, `"prov"`)
		if n.Count("Controller.Expand")+n.Count("Controller.Verify") > 0 {
			t.Errorf("it is asked to %v", n.Calls())
		}
		r.becomes("prov")
		if err := expand(r); err != nil || r.Get("v").Capacity != 1000 {
			t.Errorf("the driver itself: %d, %v", r.Get("v").Capacity, err)
		}
	})
	t.Run("it is not believed", func(t *testing.T) {
		t.Parallel()
		r, n := start(t)
		r.becomesWhileAsked(n, "Controller.Expand")
		wants(t, expand(r), fault.Conflict, `is driver "another" now`)
		if c := r.Get("v").Capacity; c != 0 {
			t.Errorf("the volume has %d bytes", c)
		}
	})
}

func TestAnotherDriverIsNotAskedForSnapshots(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (*rig, *volumestest.Node) {
		r := newRig(t, forAnAnswer)
		n := r.Node("n1")
		r.Register(volumestest.Spec("v"))
		return r, n
	}
	t.Run("it is not asked", func(t *testing.T) {
		t.Parallel()
		r, n := start(t)
		r.becomes("another")
		_, err := r.Snapshot("s")
		wants(t, err, fault.Conflict, `is driver "another" now`)
		if n.Count("Controller.Snapshot") > 0 || r.Intents() > 0 {
			t.Errorf("%d intents, and it is asked to %v", r.Intents(), n.Calls())
		}
	})
	t.Run("it is not believed", func(t *testing.T) {
		t.Parallel()
		r, n := start(t)
		r.becomesWhileAsked(n, "Controller.Snapshot")
		_, err := r.Snapshot("s")
		wants(t, err, fault.Conflict, `is driver "another" now`)
		if n.Count("Controller.SnapshotDelete") > 0 {
			t.Error("the other driver deletes")
		}
		r.becomes("prov") // which may have cut it
		n.Await(t, "Controller.SnapshotDelete")
	})
	t.Run("it does not delete", func(t *testing.T) {
		t.Parallel()
		r, n := start(t)
		var once sync.Once
		n.On("Controller.SnapshotDelete", func(context.Context, any) error {
			once.Do(func() { r.becomes("another") })
			return volumestest.Says("Controller.SnapshotDelete", codes.Unavailable, "later")
		})
		_, err := r.Service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{PluginID: "p", ID: "snap-1"})
		wants(t, err, fault.Conflict, `is driver "another" now`)
		if c := n.Count("Controller.SnapshotDelete"); c != 1 {
			t.Errorf("%d calls, of which the other driver got all but one", c)
		}
	})
}

// What one driver was asked to create is not looked for, nor deleted, at another one: it may have a volume by that name.
func TestAnotherDriverUndoesNoCreation(t *testing.T) {
	t.Parallel()
	for name, undo := range map[string]func(*rig) error{
		"deleted": func(r *rig) error { return r.Delete("v") },
		"replaced": func(r *rig) error {
			other := volumestest.Made("v")
			other.RequestedCapacityMin = 200
			return r.Create(other)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			n := r.Node("n1")
			n.Says("Controller.Create", codes.Unknown, "no idea")
			if err := r.Create(volumestest.Made("v")); err == nil {
				t.Fatal("it is created")
			}
			r.Eventually("it has failed", func(tx *state.Txn) bool { return tx.Volume("default", "v").Provision.State == api.VolumeFailed })
			n.On("Controller.Create", nil)
			before := len(n.Calls())
			r.becomes("another")
			if err := undo(r); err == nil || !strings.Contains(err.Error(), `is driver "another" now`) {
				t.Errorf("the user is told %v", err)
			}
			if calls := n.Calls()[before:]; len(calls) > 0 {
				t.Fatalf("the other driver is asked to %v", calls)
			}
			r.becomes("prov")
			n.Await(t, "Controller.Delete")
		})
	}
	t.Run("found", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		n := r.Node("n1")
		n.Says("Controller.Create", codes.Unknown, "no idea")
		_ = r.Create(volumestest.Made("v"))
		r.Eventually("it has failed", func(tx *state.Txn) bool { return tx.Volume("default", "v").Provision.State == api.VolumeFailed })
		n.On("Controller.Create", nil)
		n.Says("Controller.Delete", codes.Unavailable, "later")
		other := volumestest.Made("v")
		other.RequestedCapacityMin = 200
		_ = r.Create(other)
		r.Eventually("what was made is found", func(tx *state.Txn) bool {
			v := tx.Volume("default", "v").Provision
			return v.Replaces != nil && v.Replaces.ExternalID != "" && v.LastError != ""
		})
		r.becomes("another")
		r.Eventually("it is told", func(tx *state.Txn) bool {
			return strings.Contains(tx.Volume("default", "v").Provision.LastError, `driver "another" now`)
		})
		if v := r.State.Read().Volume("default", "v"); v.Provision.Replaces == nil {
			t.Error("what was made is forgotten")
		}
		if _, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v", Force: true}); err != nil {
			t.Error(err)
		}
	})
}

// A yes of another driver, which may have deleted another volume, deletes nothing here.
func TestYesOfAnotherDriverDeletesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.becomesWhileAsked(n, "Controller.Delete")
	wants(t, r.Delete("v"), fault.Unavailable, `driver "another" now`)
	if v := r.State.Read().Volume("default", "v"); v == nil || v.Provision.State != api.VolumeDeleting {
		t.Errorf("the volume is %+v", v)
	}
}

// A deletion that a driver may be at work on is not given back when another one comes: who got the volume then would lose it.
func TestDeletionThatADriverMayHaveBegunIsNotGivenBack(t *testing.T) {
	t.Parallel()
	for name, begun := range map[string]bool{"the answer was lost": true, "it was never asked": false} {
		r := newRig(t)
		n := r.Node("n1")
		r.Register(volumestest.Spec("v"))
		n.On("Controller.Delete", func(context.Context, any) error {
			r.becomes("another")
			return fault.New(fault.Timeout, "no answer")
		})
		if !begun {
			r.becomes("another")
		}
		wants(t, r.Delete("v"), map[bool]fault.Class{true: fault.Unavailable, false: fault.Conflict}[begun], `driver "another" now`)
		want := map[bool]api.VolumeState{true: api.VolumeDeleting, false: api.VolumeAvailable}[begun]
		if v := r.State.Read().Volume("default", "v"); v == nil || v.Provision.State != want {
			t.Errorf("%s: the volume is %+v", name, v)
		}
		if !begun {
			continue
		}
		n.On("Controller.Delete", func(context.Context, any) error { return nil })
		r.becomes("prov")
		r.Eventually("the deletion goes on", func(tx *state.Txn) bool { return tx.Volume("default", "v") == nil })
	}
}

// Nor does one create what the driver of before was asked for, and may have made.
func TestAnotherDriverDoesNotGoOnWithACreation(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	r.becomesWhileAsked(n, "Controller.Create")
	wants(t, r.Create(volumestest.Made("v")), fault.Conflict, `is driver "another" now`)
	if v := r.State.Read().Volume("default", "v"); v.Provision.State != api.VolumeFailed || !v.Provision.Uncertain {
		t.Errorf("the creation is %+v", v.Provision)
	}
	if c := n.Count("Controller.Create"); c != 1 {
		t.Errorf("%d calls", c)
	}
	r.becomes("prov")
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Error(err)
	}
}

// The rows tell late which driver a plugin is: the calls that only one driver may answer say which.
func TestCallsSayWhichDriverIsMeant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	meant := make(chan string, 100)
	for method, driver := range map[string]func(any) string{
		"Controller.Create":         func(q any) string { return q.(*api.ControllerCreateRequest).Provider },
		"Controller.Delete":         func(q any) string { return q.(*api.ControllerDeleteRequest).Provider },
		"Controller.Expand":         func(q any) string { return q.(*api.ControllerExpandRequest).Provider },
		"Controller.Snapshot":       func(q any) string { return q.(*api.ControllerSnapshotRequest).Provider },
		"Controller.SnapshotDelete": func(q any) string { return q.(*api.ControllerSnapshotDeleteRequest).Provider },
		"Controller.Unpublish":      func(q any) string { return q.(*api.ControllerUnpublishRequest).Provider },
	} {
		n.On(method, func(_ context.Context, q any) error {
			meant <- method + " of " + driver(q)
			return nil
		})
	}
	said := func(want string) {
		t.Helper()
		if got := <-meant; got != want {
			t.Errorf("the call is %s, want %s", got, want)
		}
	}
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	said("Controller.Create of prov")
	bigger := volumestest.Made("v")
	bigger.RequestedCapacityMin = 1000
	if err := r.Create(bigger); err != nil {
		t.Fatal(err)
	}
	said("Controller.Expand of prov")
	if _, err := r.Snapshot("s"); err != nil {
		t.Fatal(err)
	}
	said("Controller.Snapshot of prov")
	if _, err := r.Service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{PluginID: "p", ID: "snap"}); err != nil {
		t.Fatal(err)
	}
	said("Controller.SnapshotDelete of prov")
	use := func() {
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.MustClaim("v", "a1", "n1")
		r.Ends("a1", api.AllocClientStatusComplete)
	}
	use()
	r.Unmounted("v", "a1", "n1")
	said("Controller.Unpublish of prov")
	r.Free("v")
	if err := r.Delete("v"); err != nil {
		t.Fatal(err)
	}
	said("Controller.Delete of prov")
	r.Register(volumestest.Spec("v"))
	use()
	r.becomes("renamed")
	r.Unmounted("v", "a1", "n1")
	r.renamed("prov", "renamed")
	said("Controller.Unpublish of renamed")
}

// While a plugin is changed from one driver to another it may have controllers of both. What is attached then is
// attached by the driver of the volume; nothing is created, as nobody would know by which.
func TestOfTwoDriversTheOneOfTheVolumeAttaches(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"n1", "n2"} { // one of them goes first for this volume
		t.Run(other, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.Node("n1")
			r.Node("n2")
			r.Register(volumestest.Spec("v"))
			r.Change(other, func(n *api.Node) { n.CSIControllerPlugins["p"].Provider = "another" })
			r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
			r.MustClaim("v", "a1", "n1")
			if a := r.State.Read().Attachment("p", "ext-v", "n1"); a.Provider != "prov" || r.Nodes.Of(other).Count("Controller.Publish") > 0 {
				t.Errorf("attached by %q; the other driver is asked to %v", a.Provider, r.Nodes.Of(other).Calls())
			}
			wants(t, r.Create(volumestest.Made("w")), fault.Conflict, `drivers "another" and "prov"`)
		})
	}
}

// A copy of what another driver has by that id is no copy of the volume.
func TestAnotherDriverCopiesNoVolume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.becomes("another")
	copied := volumestest.Made("copy")
	copied.CloneID = "ext-v"
	wants(t, r.Create(copied), fault.Conflict, `of driver "prov"`, `driver "another" now`)
	if n.Count("Controller.Create") > 0 {
		t.Error("it is asked")
	}
}
