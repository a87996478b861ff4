package nodes_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// A node may register another driver under a plugin id at any time.
func TestRegisteredInstanceOfAnotherDriverIsUnhealthy(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.edit(func(tx *state.Txn) {
		tx.PutVolume(&api.Volume{
			VolumeSpec: api.VolumeSpec{Namespace: "default", ID: "v", PluginID: "p"},
			Provision:  api.VolumeProvision{State: api.VolumeAvailable, ExternalID: "x", Provider: "owner"},
		})
	})
	for driver, healthy := range map[string]bool{"another": false, "owner": true} {
		n := plugged("n1", true)
		n.CSINodePlugins["p"].Provider = driver
		n.CSIControllerPlugins = map[string]*api.CSIInfo{"p": {Healthy: true, Provider: driver}}
		r.register(n)
		n = r.state.Read().Node("n1")
		for _, i := range []*api.CSIInfo{n.CSIControllerPlugins["p"], n.CSINodePlugins["p"]} {
			if i.Healthy != healthy || healthy == strings.Contains(i.HealthDescription, `belongs to driver "owner"`) {
				t.Errorf("driver %q: %+v", driver, i)
			}
		}
	}
}
