package volumes_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func (r *rig) registers(v *api.VolumeSpec) error {
	_, err := r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{v}})
	return err
}

func TestNewUsesOfAKnownVolumeAreAskedOfItsDriver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	same := volumestest.Spec("v")
	same.OnNodeLoss = api.NodeLossWait
	if err := r.registers(same); err != nil || n.Count("Controller.Validate") != 1 {
		t.Fatalf("nothing is new, and the driver is asked: %v", err)
	}
	n.Says("Controller.Validate", codes.InvalidArgument, "one writer only")
	many := volumestest.Spec("v", writer, api.AccessMultiNodeMultiWriter)
	if err := r.registers(many); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "one writer only") {
		t.Errorf("a capability that the driver refuses: %v", err)
	}
	mounted := volumestest.Spec("v")
	mounted.MountOptions = &api.MountOptions{FSType: "xfs"}
	if err := r.registers(mounted); !errors.Is(err, fault.Invalid) {
		t.Errorf("mount options that the driver refuses: %v", err)
	}
	if v := r.Get("v"); len(v.RequestedCapabilities) != 1 || v.MountOptions != nil {
		t.Errorf("taken all the same: %+v", v.VolumeSpec)
	}
}

// What is known of a volume is not believed of one that takes its place.
func TestVolumeThatIsDeletedWhileItIsRegisteredIsNotRegisteredUnasked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	asked := make(chan struct{})
	n.On("Controller.Validate", func(context.Context, any) error {
		close(asked)
		if _, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v"}); err != nil {
			t.Error(err)
		}
		return nil
	})
	many := volumestest.Spec("v", writer, api.AccessMultiNodeMultiWriter)
	if err := r.registers(many); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "in the meantime") {
		t.Errorf("registered: %v", err)
	}
	select {
	case <-asked:
	default:
		t.Error("its driver was not asked")
	}
	if r.State.Read().Volume("default", "v") != nil {
		t.Error("the volume is there")
	}
	n.On("Controller.Validate", nil)
	r.Register(many)
}

func TestWhatADriverDoesNotConfirmIsNotValidated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	n.LeavesOpen("it depends")
	r.Register(volumestest.Spec("v"))
	if v := r.Get("v"); v.NotValidated != "it depends" {
		t.Errorf("not validated because %q", v.NotValidated)
	}
	changed := volumestest.Spec("v")
	changed.OnNodeLoss = api.NodeLossWait
	if err := r.registers(changed); err != nil || r.Get("v").NotValidated != "it depends" {
		t.Errorf("a change of something else: %v, %q", err, r.Get("v").NotValidated)
	}
	n.LeavesOpen("")
	if err := r.registers(volumestest.Spec("v", writer, api.AccessSingleNodeReader)); err != nil || r.Get("v").NotValidated != "" {
		t.Errorf("confirmed: %v, %q", err, r.Get("v").NotValidated)
	}
}

func TestVolumeIsRegisteredWhenAnInstanceOfItsPluginRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Edit(func(tx *state.Txn) {
		tx.PutJob(&api.Job{ID: "ghost", Namespace: "default", TaskGroups: []*api.TaskGroup{{Name: "g", Count: 1, Tasks: []*api.Task{
			{Name: "t", CSIPluginConfig: &api.CSIPluginConfig{ID: "p", Type: api.CSIPluginTypeNode}},
		}}}})
	})
	refused := func(what string) {
		t.Helper()
		if err := r.registers(volumestest.Spec("v")); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "nomad plugin status p") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("a job alone")
	r.Node("n1", volumestest.NoController)
	r.Change("n1", func(n *api.Node) { n.CSINodePlugins["p"].Healthy = false })
	refused("an unhealthy instance")
	r.Change("n1", func(n *api.Node) { n.CSINodePlugins["p"].Healthy = true })
	r.Register(volumestest.Spec("v"))
	r.Change("n1", func(n *api.Node) { n.CSINodePlugins["p"].Healthy = false })
	changed := volumestest.Spec("v")
	changed.Secrets = map[string]string{"key": "new"}
	if err := r.registers(changed); err != nil {
		t.Errorf("a known volume gets no new secret while its plugin is down: %v", err)
	}
}

func TestControllerIsRequiredByVolumesThatNeedIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what                  string
		change                func(*api.Node)
		required, schedulable bool
	}{
		{"attaches", func(*api.Node) {}, true, true},
		{"attaches, unhealthy", func(n *api.Node) { n.CSIControllerPlugins["p"].Healthy = false }, true, false},
		{"does not attach", func(n *api.Node) { n.CSIControllerPlugins["p"].ControllerInfo.SupportsAttachDetach = false }, false, true},
		{"does not attach, unhealthy", func(n *api.Node) {
			n.CSIControllerPlugins["p"].Healthy, n.CSIControllerPlugins["p"].ControllerInfo.SupportsAttachDetach = false, false
		}, false, true},
		{"nobody has said", func(n *api.Node) { n.CSIControllerPlugins = nil }, true, false},
		{"has none", volumestest.NoController, false, true},
	} {
		r := newRig(t)
		r.Node("n1")
		r.Register(volumestest.Spec("v"))
		r.Change("n1", c.change)
		if v := r.Get("v"); v.ControllerRequired != c.required || v.Schedulable != c.schedulable {
			t.Errorf("%s: required %v, schedulable %v", c.what, v.ControllerRequired, v.Schedulable)
		}
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		if claim := r.State.Read().Claim("default", "v", "a1", ""); claim.Attach != c.required {
			t.Errorf("%s: the claim is to be attached: %v", c.what, claim.Attach)
		}
		r.Halt() // or the reconciler ends the expansion
		r.Edit(func(tx *state.Txn) {
			v := *tx.Volume("default", "v")
			v.Provision.State = api.VolumeExpanding
			tx.PutVolume(&v)
		})
		if !r.Get("v").ControllerRequired {
			t.Errorf("%s: nobody is required to expand it", c.what)
		}
	}
}
