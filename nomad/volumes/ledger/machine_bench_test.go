package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// What it costs to find that nobody waits for what a lost node had mounted: 50 volumes of a plugin that 5,000 nodes run.
func BenchmarkAwaited(b *testing.B) {
	s := state.New()
	tx := s.Write(1, time.Unix(1, 0))
	for i := range 5000 {
		id := fmt.Sprintf("n%d", i)
		tx.PutNode(&api.Node{
			ID: id, Status: api.NodeStatusReady, CSINodePlugins: map[string]*api.CSIInfo{
				"p": {PluginID: "p", Healthy: true, RequiresControllerPlugin: true, NodeInfo: &api.CSINodeInfo{ID: "machine-" + id}},
			},
		})
	}
	lost := &api.Node{ID: "lost", Status: api.NodeStatusDown}
	for i := range 50 {
		lost.StaleMounts = append(lost.StaleMounts, &api.StaleMount{
			Namespace: "default", VolumeID: fmt.Sprint(i), AllocID: fmt.Sprint(i), PluginID: "p", ExternalID: fmt.Sprint(i), ProviderNodeID: "machine-lost",
		})
	}
	tx.PutNode(lost)
	tx.Commit()
	for b.Loop() {
		if ledger.Awaited(s.Read(), lost, func(*api.Node) bool { return false }) {
			b.Fatal("somebody waits")
		}
	}
}
