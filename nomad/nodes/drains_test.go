package nodes_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func (r *room) edit(fn func(*state.Txn)) {
	tx := r.state.Write(r.state.Read().Index()+1, r.state.Read().Now())
	fn(tx)
	tx.Commit()
}

func TestDrainKeepsThePluginWhileStorageIsAttached(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.lead()
	r.register(node("n1"))
	r.beat("n1", api.NodeStatusReady)
	user := r.place("service", "web", "n1")
	plugin := r.place("system", "driver", "n1", func(g *api.TaskGroup) {
		g.Tasks[0].CSIPluginConfig = &api.CSIPluginConfig{ID: "p", Type: api.CSIPluginTypeMonolith}
	})
	r.edit(func(tx *state.Txn) {
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n1", State: api.AttachmentUnpublishing})
	})
	if _, err := r.Drain(t.Context(), &api.NodeDrainRequest{NodeID: "n1", DrainSpec: &api.DrainSpec{Deadline: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	leaves := func(a *api.Allocation) bool { return r.state.Read().Alloc(a.ID).DesiredTransition.Migrate }
	r.await("the user to leave", "n1", func(*api.Node) bool { return true })
	if err := state.Until(t.Context(), r.state, []state.Key{state.AllocKey(user.ID)}, func(*state.Txn) bool { return leaves(user) }); err != nil {
		t.Fatal(err)
	}
	r.edit(func(tx *state.Txn) {
		a := *tx.Alloc(user.ID)
		a.ClientStatus, a.DesiredStatus = api.AllocClientStatusComplete, api.AllocDesiredStatusStop
		tx.PutAlloc(&a)
	})
	// Another round of the loop has seen all this when a node that came after is registered and drained.
	r.register(node("n2"))
	if _, err := r.Drain(t.Context(), &api.NodeDrainRequest{NodeID: "n2", DrainSpec: &api.DrainSpec{Deadline: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	r.await("the drain of an empty node", "n2", func(n *api.Node) bool { return n.DrainStrategy == nil })
	if leaves(plugin) {
		t.Fatal("the plugin leaves while storage is attached to its node")
	}
	r.edit(func(tx *state.Txn) { tx.DeleteAttachment("p", "x", "n1") })
	if err := state.Until(t.Context(), r.state, []state.Key{state.AllocKey(plugin.ID)}, func(*state.Txn) bool { return leaves(plugin) }); err != nil {
		t.Fatal(err)
	}
}
