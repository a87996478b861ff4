package volumes_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// A driver that does not know of places must not be sent any: what was required of it is refused, what was only preferred
// is said to be left out.
func TestPlacesAreAskedOnlyOfPluginsThatKnowThem(t *testing.T) {
	t.Parallel()
	at := []*api.Topology{{Segments: map[string]string{"zone": "a"}}}
	for name, c := range map[string]struct {
		knows   bool
		request *api.TopologyRequest
		refused bool
		warning string
	}{
		"required":             {false, &api.TopologyRequest{Required: at}, true, ""},
		"both":                 {false, &api.TopologyRequest{Required: at, Preferred: at}, true, ""},
		"preferred":            {false, &api.TopologyRequest{Preferred: at}, false, "ignores the preferred places"},
		"nothing":              {false, &api.TopologyRequest{Required: []*api.Topology{}}, false, ""},
		"required of one that": {true, &api.TopologyRequest{Required: at}, false, ""},
		"preferred by it":      {true, &api.TopologyRequest{Preferred: at}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.Node("n1")
			r.Change("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].RequiresTopologies = c.knows })
			spec := volumestest.Spec("v")
			spec.ExternalID, spec.RequestedTopologies = "", c.request
			out, err := r.Service.Create(r.Context(), &api.VolumeCreateRequest{Volumes: []*api.VolumeSpec{spec}})
			if c.refused {
				if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "VOLUME_ACCESSIBILITY_CONSTRAINTS") || r.State.Read().Volume("default", "v") != nil {
					t.Errorf("answer %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.warning == "" && out.Warnings != "" || !strings.Contains(out.Warnings, c.warning) {
				t.Errorf("warnings %q", out.Warnings)
			}
		})
	}
}
