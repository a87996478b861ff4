package doctor_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/doctor"
)

func TestEachStateOfAPluginHasItsFinding(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*doctor.PluginFacts)
		want   []string
	}{
		"healthy":        {func(*doctor.PluginFacts) {}, nil},
		"no nodes":       {func(f *doctor.PluginFacts) { f.Plugin.NodesHealthy = 0 }, []string{"error no-healthy-node-instance"}},
		"no nodes, idle": {func(f *doctor.PluginFacts) { f.Plugin.NodesHealthy, f.Volumes = 0, 0 }, []string{"warning no-healthy-node-instance"}},
		"one missing":    {func(f *doctor.PluginFacts) { f.Plugin.NodesExpected = 3 }, []string{"warning node-instances-missing"}},
		"no controller":  {func(f *doctor.PluginFacts) { f.Plugin.ControllersHealthy = 0 }, []string{"error no-healthy-controller"}},
		"unhealthy":      {func(f *doctor.PluginFacts) { f.Instances[0].Healthy = false }, []string{"error unhealthy"}},
		"fails":          {func(f *doctor.PluginFacts) { f.Instances[0].Error = "no reply" }, []string{"error call-failed"}},
		"starting":       {func(f *doctor.PluginFacts) { f.Instances[0].Ready = false }, []string{"warning starting"}},
		"not called":     {func(f *doctor.PluginFacts) { f.Instances[0].Asked = false }, []string{"warning not-called"}},
		"node down":      {func(f *doctor.PluginFacts) { f.Instances[0].NodeStatus = api.NodeStatusDown }, []string{"warning node-not-ready"}},
		"version":        {func(f *doctor.PluginFacts) { f.Instances[0].Version = "2" }, []string{"warning versions-differ"}},
		"driver":         {func(f *doctor.PluginFacts) { f.Instances[0].Provider = "other" }, []string{"error drivers-differ"}},
		"capabilities":   {func(f *doctor.PluginFacts) { f.Instances[0].Capabilities = []string{"X"} }, []string{"warning capabilities-differ"}},
		"same node id":   {func(f *doctor.PluginFacts) { f.Instances[0].ProviderNodeID = "i-2" }, []string{"error node-id-not-unique"}},
	} {
		t.Run(name, func(t *testing.T) {
			instance := func(n string) *api.PluginInstance {
				return &api.PluginInstance{
					NodeID: n, NodeStatus: api.NodeStatusReady, Type: api.CSIPluginTypeNode, Healthy: true, Asked: true, Ready: true,
					Provider: "prov", Version: "1", ProviderNodeID: "i-" + n[1:],
				}
			}
			f := doctor.PluginFacts{
				Plugin:    &api.Plugin{ID: "p", NodesHealthy: 2, NodesExpected: 2, ControllersHealthy: 1, ControllersExpected: 1},
				Instances: []*api.PluginInstance{instance("n1"), instance("n2")}, Volumes: 1,
			}
			c.change(&f)
			var got []string
			for _, found := range doctor.Plugin(f) {
				got = append(got, found.Severity+" "+found.Kind)
				if found.PluginID != "p" || found.Text == "" || found.Command == "" {
					t.Errorf("incomplete: %+v", found)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v", got)
			}
		})
	}
}
