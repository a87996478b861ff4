package scheduler_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func TestPoolsPlaceTheirOwnWay(t *testing.T) {
	nodesUsed := func(pool *api.NodePoolSchedulerConfiguration) int {
		c := newCluster(t)
		c.write(func(tx *state.Txn) { tx.PutNodePool(&api.NodePool{Name: "default", SchedulerConfiguration: pool}) })
		c.nodes(4)
		used := map[string]bool{}
		// Jobs of their own: allocations of one job keep apart anyway.
		for _, id := range []string{"a", "b", "c", "d"} {
			j := job(id, api.JobTypeService, 1)
			c.register(j)
			for _, a := range placed(c.run(j)) {
				used[a.NodeID] = true
			}
		}
		return len(used)
	}
	if n := nodesUsed(nil); n != 1 {
		t.Errorf("packed onto %d nodes", n)
	}
	if n := nodesUsed(&api.NodePoolSchedulerConfiguration{SchedulerAlgorithm: api.SchedulerAlgorithmSpread}); n != 4 {
		t.Errorf("spread over %d nodes", n)
	}
}
