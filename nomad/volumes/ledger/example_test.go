package ledger_test

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// The entry that places an allocation takes its claims. Here the plugin needs no controller, so that the claim is ready
// at once, and a second writer is refused.
func ExampleTake() {
	s := state.New()
	alloc := func(id string) *api.Allocation {
		return &api.Allocation{
			ID: id, Namespace: "default", NodeID: "n1", JobID: id, TaskGroup: "g",
			Job: &api.Job{ID: id, Namespace: "default", TaskGroups: []*api.TaskGroup{{
				Name: "g", Volumes: map[string]*api.VolumeRequest{"data": {Name: "data", Type: api.VolumeTypeCSI, Source: "db"}},
			}}},
		}
	}
	tx := s.Write(10, time.Unix(1_700_000_000, 0))
	tx.PutNode(&api.Node{ID: "n1", Status: api.NodeStatusReady, CSINodePlugins: map[string]*api.CSIInfo{"dir": {Healthy: true, NodeInfo: &api.CSINodeInfo{}}}})
	tx.PutVolume(&api.Volume{
		VolumeSpec: api.VolumeSpec{
			ID: "db", Namespace: "default", PluginID: "dir",
			RequestedCapabilities: []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem}},
		},
		Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: "x1"},
	})
	for _, a := range []*api.Allocation{alloc("one"), alloc("two")} {
		if err := ledger.Check(tx, a, nil); err != nil {
			fmt.Println(a.ID, "refused:", err)
			continue
		}
		tx.PutAlloc(a)
		if err := ledger.Take(tx, a, nil); err != nil {
			fmt.Println(err)
		}
	}
	for c := range tx.ClaimsByVolume("default", "db") {
		fmt.Println(c.AllocID, c.Mode, c.State)
	}
	tx.Commit()
	// Output:
	// two refused: volume "db" is held as single-node-writer by allocation one of job "one" on node n1 since 2023-11-14T22:13:20Z: it is free when that allocation stops
	// one write ready
}
