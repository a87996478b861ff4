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

// The report of a node whose agent was started anew may quote a secret that it has not sent itself.
func TestReportsShowNoSecrets(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	v := volumestest.Spec("v")
	v.Secrets = map[string]string{"password": "tr0ub4dor"}
	r.Register(v)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Ends("a1", api.AllocClientStatusComplete)
	if err := r.Report("v", "a1", "n1", "umount: -o password=tr0ub4dor: busy"); err != nil {
		t.Fatal(err)
	}
	if c := r.State.Read().Claim("default", "v", "a1", ""); strings.Contains(c.LastError, "tr0ub4dor") || !strings.Contains(c.LastError, "busy") {
		t.Errorf("the claim shows %q", c.LastError)
	}
}
