package nodes_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// A drain leaves a plugin alone until the node has said that nothing of it is mounted any more,
// however long ago its users ended.
func TestDrainKeepsThePluginUntilUnmountEnds(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.lead()
	r.register(node("n1"))
	r.beat("n1", api.NodeStatusReady)
	user := r.place("service", "web", "n1")
	plugin := r.place("system", "driver", "n1", func(g *api.TaskGroup) {
		g.Tasks[0].CSIPluginConfig = &api.CSIPluginConfig{ID: "p", Type: api.CSIPluginTypeMonolith}
	})
	claim := api.VolumeClaim{
		Namespace: "default", VolumeID: "v", AllocID: user.ID, NodeID: "n1", PluginID: "p", ExternalID: "x", State: api.ClaimReleasing,
	}
	r.edit(func(tx *state.Txn) {
		a := *tx.Alloc(user.ID)
		a.ClientStatus, a.DesiredStatus = api.AllocClientStatusComplete, api.AllocDesiredStatusStop
		tx.PutAlloc(&a)
		releasing := claim
		tx.PutClaim(&releasing)
	})
	if _, err := r.Drain(t.Context(), &api.NodeDrainRequest{NodeID: "n1", DrainSpec: &api.DrainSpec{Deadline: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	// Another round of the loop has seen all this when a node that came after is registered and drained.
	r.register(node("n2"))
	if _, err := r.Drain(t.Context(), &api.NodeDrainRequest{NodeID: "n2", DrainSpec: &api.DrainSpec{Deadline: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	r.await("the drain of an empty node", "n2", func(n *api.Node) bool { return n.DrainStrategy == nil })
	leaves := func(*state.Txn) bool { return r.state.Read().Alloc(plugin.ID).DesiredTransition.Migrate }
	if leaves(nil) {
		t.Fatal("the plugin leaves while its volume is mounted")
	}
	r.edit(func(tx *state.Txn) { tx.DeleteClaim(claim.Namespace, claim.VolumeID, claim.AllocID, claim.Use) })
	if err := state.Until(t.Context(), r.state, []state.Key{state.AllocKey(plugin.ID)}, leaves); err != nil {
		t.Fatal(err)
	}
}
