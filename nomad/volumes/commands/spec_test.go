package commands_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/apitest"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

// Each field of a new spec is taken, or refused with its reason: none is taken in silence and forgotten.
func TestEveryFieldOfANewSpecIsTakenOrRefused(t *testing.T) {
	t.Parallel()
	// The name of the volume is how it was found. Capacities of a volume that is larger already go to an expansion.
	elsewhere := []string{"ID", "Namespace"}
	base := func() *api.Volume {
		v := &api.Volume{VolumeSpec: *apitest.Full(&api.VolumeSpec{})}
		v.Provision = api.VolumeProvision{
			State: api.VolumeAvailable, ExternalID: v.ExternalID, CapacityBytes: 1 << 30, Topologies: []*api.Topology{{}},
		}
		return v
	}
	for _, f := range apitest.Fields(&api.VolumeSpec{}, elsewhere...) {
		spec := apitest.Full(&api.VolumeSpec{})
		f.Set(spec)
		next, err := commands.Merged(base(), spec, nil)
		if err == nil && !reflect.DeepEqual(f.Get(&next.VolumeSpec), f.Get(spec)) {
			t.Errorf("%s is %v, and %v was asked for without an error", f.Path, f.Get(&next.VolumeSpec), f.Get(spec))
		}
		if err != nil && !strings.Contains(err.Error(), "cannot change") {
			t.Errorf("%s is refused: %v", f.Path, err)
		}
	}
}
