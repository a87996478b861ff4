package reconciler_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// ALREADY_EXISTS says that the provider has a volume of that name which is not the one that was asked for: it was
// there before, with somebody's data.
func TestUndoNeverDeletesTheVolumeOfSomebodyElse(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	p := provide(n)
	p.script("Controller.Create", always, codes.DeadlineExceeded, codes.AlreadyExists)
	n.Knows(api.ControllerVerifyResponse{Exists: api.KnownYes, By: "ListVolumes"})
	if err := r.Create(volumestest.Made("v")); err == nil {
		t.Fatal("created")
	}
	_ = r.Delete("v")
	if n.Count("Controller.Delete") != 0 {
		t.Error("the volume that another one made is deleted")
	}
	if v := r.State.Read().Volume("default", "v"); v != nil {
		t.Errorf("the row is still %s", v.Provision.State)
	}
}

// Another plugin may know another volume by the same id.
func TestUndoAsksThePluginThatWasAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1", func(n *api.Node) {
		q := *n.CSIControllerPlugins["p"]
		q.PluginID = "q"
		n.CSIControllerPlugins["q"] = &q
	})
	p := provide(n)
	p.script("Controller.Create", 0, codes.DeadlineExceeded, codes.PermissionDenied)
	if err := r.Create(volumestest.Made("v")); err == nil {
		t.Fatal("created")
	}
	var asked []string
	n.On("Controller.Delete", func(_ context.Context, req any) error {
		asked = append(asked, req.(*api.ControllerDeleteRequest).PluginID)
		return nil
	})
	other := volumestest.Made("v")
	other.PluginID = "q"
	if err := r.Create(other); !errors.Is(err, fault.Conflict) {
		t.Errorf("create with another plugin: %v", err)
	}
	if err := r.Delete("v"); err != nil {
		t.Error(err)
	}
	if len(asked) != 1 || asked[0] != "p" {
		t.Errorf("deletions were asked of %v", asked)
	}
	if err := r.Create(other); err != nil {
		t.Error(err)
	}
}
