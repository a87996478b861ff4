package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs/ledger"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// What registering the job of a plugin costs every server, with 20 volumes mounted on each of 500 nodes.
func BenchmarkChangePluginOfManyMounts(b *testing.B) {
	s := state.New()
	j := plugin("driver", monolith)
	for i := range 5 {
		j.Constraints = append(j.Constraints, &api.Constraint{LTarget: fmt.Sprintf("${attr.a%d}", i), Operand: api.ConstraintRegex, RTarget: "^v[0-9]+$"})
	}
	tx := s.Write(1, time.Unix(1, 0))
	tx.PutJob(j)
	for i := range 500 {
		node := fmt.Sprintf("n%d", i)
		tx.PutNode(&api.Node{ID: node, Status: api.NodeStatusReady, Datacenter: "dc1", NodePool: "default", Attributes: map[string]string{"a0": "v1", "a1": "v1", "a2": "v1", "a3": "v1", "a4": "v1"}})
		for k := range 20 {
			id := fmt.Sprintf("%s-%d", node, k)
			tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: id, AllocID: id, NodeID: node, PluginID: "p", ExternalID: id, State: api.ClaimReady})
		}
	}
	tx.Commit()
	next := *j
	for b.Loop() {
		if err := ledger.Needed(s.Read(), j, &next); err != nil {
			b.Fatal(err)
		}
	}
}
