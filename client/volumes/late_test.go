package volumes_test

import (
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

func TestLateCreationDoesNotMakeADeletedVolumeAgain(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	create := func(fence uint64) (*api.ControllerCreateResponse, error) {
		return handle(r, r.ctx(), wire.ControllerCreate, &api.ControllerCreateRequest{
			ControllerCall: api.ControllerCall{PluginID: "p", Fence: fence}, Name: "made",
			Capabilities: []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem}},
		})
	}
	made, err := create(5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := handle(r, r.ctx(), wire.ControllerDelete, &api.ControllerDeleteRequest{
		ControllerCall: api.ControllerCall{PluginID: "p", Fence: 7}, ExternalID: made.ExternalID, Name: "made",
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := create(5); !errors.Is(err, fault.Conflict) {
		t.Errorf("a creation of before the deletion answers %v", err)
	}
	if n := r.count("CreateVolume"); n != 1 {
		t.Errorf("the driver was asked %d times", n)
	}
	if _, err := create(9); err != nil {
		t.Errorf("a later creation: %v", err)
	}
}
