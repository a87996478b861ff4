package scheduler_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func TestSystemAllocationOutOfSightIsNotReplaced(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	j := job("sys", api.JobTypeSystem, 1, func(j *api.Job) {
		j.TaskGroups[0].Disconnect = &api.DisconnectStrategy{LostAfter: time.Hour, Replace: true}
	})
	c.register(j)
	if o := c.run(j); len(placed(o)) != 2 {
		t.Fatalf("placed %d", len(placed(o)))
	}
	c.setRunning("sys")
	var node string
	for _, a := range c.live("sys") {
		node = a.NodeID
	}
	status := func(s string) {
		c.write(func(tx *state.Txn) {
			n := *tx.Node(node)
			n.Status = s
			tx.PutNode(&n)
		})
	}
	status(api.NodeStatusDisconnected)
	o := c.run(j)
	if len(stopped(o)) != 0 {
		t.Fatalf("stopped %d", len(stopped(o)))
	}
	unknown := 0
	for _, a := range c.live("sys") {
		if a.ClientStatus == api.AllocClientStatusUnknown && a.NodeID == node && a.FollowupEvalID != "" {
			unknown++
		}
	}
	if unknown != 1 {
		t.Fatalf("%d are unknown", unknown)
	}
	status(api.NodeStatusReady)
	if o := c.run(j); len(stopped(o))+len(placed(o)) != 0 {
		t.Fatalf("after the return: %d stopped, %d placed", len(stopped(o)), len(placed(o)))
	}
}
