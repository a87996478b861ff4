package volumes_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func TestErrorsHideSecretsThatDriversQuote(t *testing.T) {
	t.Parallel()
	const secret, former = "hunter2-of-the-volume", "hunter1-of-the-request"
	r := newRig(t)
	n := r.Node("n1")
	servers := wire.Direct(r.Service.Handlers()...)
	spec := volumestest.Spec("v")
	spec.Secrets = map[string]string{"password": secret}
	r.Register(spec)
	n.Says("Controller.Validate", codes.InvalidArgument, "bad password "+secret+" and "+former)
	n.Says("Controller.Delete", codes.InvalidArgument, "bad password "+secret+" and "+former)
	n.Says("Controller.SnapshotList", codes.InvalidArgument, "bad password "+former)
	given := map[string]string{"password": former}
	changed := volumestest.Spec("v", writer, api.AccessMultiNodeMultiWriter)
	changed.Secrets = given
	for what, ask := range map[string]func() error{
		"register": func() error {
			_, err := wire.VolumeRegister.Call(r.Context(), servers, &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{changed}})
			return err
		},
		"delete": func() error {
			_, err := wire.VolumeDelete.Call(r.Context(), servers, &api.VolumeDeleteRequest{VolumeID: "v", Secrets: given})
			return err
		},
	} {
		err := ask()
		if err == nil || !strings.Contains(err.Error(), "bad password") {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), former) {
			t.Errorf("%s shows a secret: %v", what, err)
		}
		if !errors.Is(err, fault.Invalid) {
			t.Errorf("%s lost its class: %v", what, err)
		}
	}
}
