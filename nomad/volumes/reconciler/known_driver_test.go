package reconciler_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// renamed is an operator's word that the driver of plugin p has another name.
func (r *rig) renamed(former, present string) {
	r.T.Helper()
	if _, err := r.Service.RenamedPlugin(r.Context(), &api.PluginRenamedRequest{ID: "p", Former: former, Present: present}); err != nil {
		r.T.Fatal(err)
	}
}

// told waits until the attachment says that another driver is there, and how to go on.
func (r *rig) told(node string) {
	r.T.Helper()
	r.Eventually("it is told", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", node)
		return a != nil && strings.Contains(a.LastError, `driver "prov" is meant`) && strings.Contains(a.LastError, "nomad plugin renamed p prov another")
	})
}

// Another driver attaches another volume by that id, and users would write to that.
func TestAnotherDriverDoesNotAttach(t *testing.T) {
	t.Parallel()
	t.Run("it is not asked, and nothing has to be undone", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		n := r.Node("n1")
		r.Register(volumestest.Spec("v"))
		r.becomes("another")
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.told("n1")
		r.Ends("a1", api.AllocClientStatusFailed)
		r.Unmounted("v", "a1", "n1")
		r.Free("v")
		if c := n.Count("Controller.Publish") + n.Count("Controller.Unpublish"); c > 0 {
			t.Errorf("it is asked to %v", n.Calls())
		}
	})
	t.Run("it goes on when the driver is back", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.Node("n1")
		r.Register(volumestest.Spec("v"))
		r.becomes("another")
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.told("n1")
		r.becomes("prov")
		r.MustClaim("v", "a1", "n1")
	})
	t.Run("nor does one that attaches nothing", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.Node("n1")
		r.Register(volumestest.Spec("v"))
		r.Change("n1", func(n *api.Node) {
			n.CSIControllerPlugins["p"].Provider, n.CSIControllerPlugins["p"].ControllerInfo.SupportsAttachDetach = "another", false
		})
		r.Edit(func(tx *state.Txn) { // as it was taken before
			a := volumestest.Alloc("a1", "n1", "v", writer)
			tx.PutAlloc(a)
			tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a1", NodeID: "n1", PluginID: "p", ExternalID: "ext-v", State: api.ClaimTaken, Attach: true, AccessMode: "single-node-writer", AttachmentMode: "file-system", Mode: "write"})
			tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "ext-v", NodeID: "n1", Provider: "prov", State: api.AttachmentPublishing, Fence: tx.Index()})
		})
		r.told("n1")
	})
	for how, change := range map[string]func(*rig, *volumestest.Node){
		"the row tells it": func(r *rig, n *volumestest.Node) { r.becomesWhileAsked(n, "Controller.Publish") },
		"its host says so": func(_ *rig, n *volumestest.Node) { n.Signs("another") },
	} {
		t.Run("it is not believed: "+how, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			n := r.Node("n1")
			r.Register(volumestest.Spec("v"))
			change(r, n)
			r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
			r.told("n1")
			if a := r.State.Read().Attachment("p", "ext-v", "n1"); a.State != api.AttachmentPublishing {
				t.Fatalf("it is %s", a.State)
			}
			n.Signs("prov")
			r.becomes("prov")
			r.MustClaim("v", "a1", "n1")
		})
	}
}

// The word of the driver's own host counts more than a row that tells another name by now.
func TestAnswerIsOfWhoSignsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	n.Signs("prov")
	r.Register(volumestest.Spec("v"))
	r.becomesWhileAsked(n, "Controller.Publish")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
}

// A driver may only have been renamed. Who knows that says so once, and everything goes on with the present name.
func TestOperatorSaysThatADriverWasRenamed(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	r.Node("n2")
	for _, v := range []string{"v", "w", "x"} {
		r.Register(volumestest.Spec(v))
	}
	use := func(v, a string) {
		r.MustPlace(volumestest.Alloc(a, "n1", v, writer))
		r.MustClaim(v, a, "n1")
	}
	ends := func(v, a string) {
		r.Ends(a, api.AllocClientStatusComplete)
		r.Unmounted(v, a, "n1")
	}
	use("v", "a1")
	use("w", "a2")
	use("x", "a3")
	rename := func(former, present string) error {
		_, err := r.Service.RenamedPlugin(r.Context(), &api.PluginRenamedRequest{ID: "p", Former: former, Present: present})
		return err
	}
	wants(t, rename("prov", "another"), fault.Conflict, "no healthy instance")
	r.becomes("another")
	wants(t, rename("prov", "another"), fault.Conflict, `controllers of driver "prov" too`)
	r.Change("n2", func(n *api.Node) { n.CSIControllerPlugins["p"].Provider = "another" }) // the nodes follow later
	wants(t, rename("typo", "another"), fault.NotFound, `driver "typo"`)
	wants(t, rename("prov", "prov"), fault.Invalid, "the same")

	ends("v", "a1")
	ends("w", "a2")
	r.told("n1")
	r.writtenOff("w", "n1")
	if c := n.Count("Controller.Unpublish"); c > 0 {
		t.Fatalf("the other driver detaches %d times", c)
	}
	wants(t, r.Delete("v"), fault.Conflict, "volume in use")
	_, err := r.Snapshot("s")
	wants(t, err, fault.Conflict, "nomad plugin renamed p prov another")

	if err := rename("prov", "another"); err != nil {
		t.Fatal(err)
	}
	r.Free("v")
	r.Eventually("what was written off is detached", func(tx *state.Txn) bool { return tx.WrittenOffTo("p", "ext-w", "n1") == nil })
	ends("x", "a3")
	r.Free("x")
	if _, err := r.Snapshot("s"); err != nil {
		t.Error(err)
	}
	if err := r.Delete("v"); err != nil {
		t.Error(err)
	}
	wants(t, rename("prov", "another"), fault.NotFound, `of driver "prov"`)
}

// two has controllers of two drivers under one id.
func two(t *testing.T) (*rig, *volumestest.Node, *volumestest.Node) {
	r := newRig(t)
	one, other := r.Node("n1"), r.Node("n2")
	r.Change("n2", func(n *api.Node) { n.CSIControllerPlugins["p"].Provider = "another" })
	one.Signs("prov")
	other.Signs("another")
	return r, one, other
}

func (r *rig) driverOf(volume string) string {
	return r.State.Read().Volume("default", volume).Provision.Provider
}

// Whose volume it is gets known by the first answer about it, and nobody changes anything of it before.
func TestDriverIsLearntFromTheFirstAnswer(t *testing.T) {
	t.Parallel()
	t.Run("validated", func(t *testing.T) {
		t.Parallel()
		r, one, other := two(t)
		register := func() error {
			_, err := r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{volumestest.Spec("v")}})
			return err
		}
		one.Says("Controller.Validate", codes.Unavailable, "busy") // it may have it too
		if err := register(); err == nil || !strings.Contains(err.Error(), `driver "prov"`) {
			t.Fatalf("registered: %v", err)
		}
		one.Says("Controller.Validate", codes.NotFound, "no such volume")
		if err := register(); err != nil || r.driverOf("v") != "another" {
			t.Fatalf("the volume is of %q: %v", r.driverOf("v"), err)
		}
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.MustClaim("v", "a1", "n1")
		if one.Count("Controller.Publish") > 0 || other.Count("Controller.Publish") != 1 {
			t.Errorf("attached by %v and %v", one.Calls(), other.Calls())
		}
	})
	t.Run("validated by hosts that sign nothing", func(t *testing.T) {
		t.Parallel()
		r, one, other := two(t)
		one.Signs("")
		other.Signs("")
		other.Says("Controller.Validate", codes.NotFound, "no such volume")
		if r.Register(volumestest.Spec("v")); r.driverOf("v") != "prov" {
			t.Errorf("the volume is of %q", r.driverOf("v"))
		}
	})
	t.Run("both have it", func(t *testing.T) {
		t.Parallel()
		r, _, _ := two(t)
		_, err := r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{volumestest.Spec("v")}})
		wants(t, err, fault.Conflict, `"prov"`, `"another"`, "have a volume")
	})
	t.Run("attached", func(t *testing.T) {
		t.Parallel()
		r, one, other := two(t)
		for _, n := range []*volumestest.Node{one, other} {
			n.LeavesOpen("no idea")
		}
		r.Register(volumestest.Spec("v"))
		if of := r.driverOf("v"); of != "" {
			t.Fatalf("the volume is of %q", of)
		}
		wants(t, r.Delete("v"), fault.Conflict, `drivers "another" and "prov"`)
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.Eventually("it waits until there is one", func(tx *state.Txn) bool {
			a := tx.Attachment("p", "ext-v", "n1")
			return a != nil && strings.Contains(a.LastError, "not known whose")
		})
		r.Change("n2", func(n *api.Node) { n.CSIControllerPlugins = nil })
		r.MustClaim("v", "a1", "n1")
		if a := r.State.Read().Attachment("p", "ext-v", "n1"); a.Provider != "prov" || r.driverOf("v") != "prov" {
			t.Errorf("known are %q and %q", a.Provider, r.driverOf("v"))
		}
		if c := other.Count("Controller.Publish") + other.Count("Controller.Delete") + one.Count("Controller.Delete"); c > 0 {
			t.Errorf("%d calls too many: %v, %v", c, one.Calls(), other.Calls())
		}
	})
	t.Run("created", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		n := r.Node("n1")
		r.becomes("") // it has not told yet
		n.Signs("prov")
		if err := r.Create(volumestest.Made("v")); err != nil || r.driverOf("v") != "prov" {
			t.Errorf("of %q: %v", r.driverOf("v"), err)
		}
	})
}

// A known volume that asks for more is shown to its own driver only.
func TestKnownVolumeIsValidatedByItsDriver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	n.Signs("prov")
	r.Register(volumestest.Spec("v"))
	r.becomes("another")
	asked := n.Count("Controller.Validate")
	more := volumestest.Spec("v")
	more.RequestedCapabilities = append(more.RequestedCapabilities, &api.VolumeCapability{AccessMode: "multi-node-reader-only", AttachmentMode: "file-system"})
	_, err := r.Service.Register(context.Background(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{more}})
	wants(t, err, fault.Conflict, `driver "prov" is meant`)
	if n.Count("Controller.Validate") != asked {
		t.Error("it is asked")
	}
}
