package nodes_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func (r *fixture) edit(fn func(*state.Txn)) {
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
	r.drainRound()
	if leaves(plugin) {
		t.Fatal("the plugin leaves while storage is attached to its node")
	}
	r.edit(func(tx *state.Txn) { tx.DeleteAttachment("p", "x", "n1") })
	if err := state.Until(t.Context(), r.state, []state.Key{state.AllocKey(plugin.ID)}, func(*state.Txn) bool { return leaves(plugin) }); err != nil {
		t.Fatal(err)
	}
}

func TestDrainThatIgnoresSystemJobsWaitsForTheirVolumesOnly(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.lead()
	r.register(node("n1"))
	r.beat("n1", api.NodeStatusReady)
	user, stays := r.place("service", "web", "n1"), r.place("system", "agent", "n1")
	r.edit(func(tx *state.Txn) {
		a := *tx.Alloc(user.ID)
		a.ClientStatus, a.DesiredStatus = api.AllocClientStatusComplete, api.AllocDesiredStatusStop
		tx.PutAlloc(&a)
		tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: user.ID, NodeID: "n1", PluginID: "p", ExternalID: "x", State: api.ClaimReleasing})
		tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "w", AllocID: stays.ID, NodeID: "n1", PluginID: "p", ExternalID: "y", State: api.ClaimReady})
		for _, x := range []string{"x", "y"} {
			tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: x, NodeID: "n1", State: api.AttachmentPublished})
		}
		n := *tx.Node("n1")
		n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "z", AllocID: "gone", PluginID: "p", ExternalID: "z"}}
		tx.PutNode(&n)
	})
	spec := &api.DrainSpec{Deadline: time.Hour, IgnoreSystemJobs: true}
	if _, err := r.Drain(t.Context(), &api.NodeDrainRequest{NodeID: "n1", DrainSpec: spec}); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []func(*state.Txn){
		func(tx *state.Txn) { tx.DeleteClaim("default", "v", user.ID, "") },
		func(tx *state.Txn) { tx.DeleteAttachment("p", "x", "n1") },
		func(tx *state.Txn) {
			n := *tx.Node("n1")
			n.StaleMounts = nil
			tx.PutNode(&n)
		},
	} {
		r.drainRound()
		if r.state.Read().Node("n1").DrainStrategy == nil {
			t.Fatal("the drain is over while a volume is on the node")
		}
		r.edit(gone)
	}
	r.await("the drain", "n1", func(n *api.Node) bool { return n.DrainStrategy == nil })
}

// drainRound returns when the loop has seen all that was written before: a node that came after is drained.
func (r *fixture) drainRound() {
	r.t.Helper()
	id := uuid.NewString()
	r.register(node(id))
	if _, err := r.Drain(r.t.Context(), &api.NodeDrainRequest{NodeID: id, DrainSpec: &api.DrainSpec{Deadline: time.Hour}}); err != nil {
		r.t.Fatal(err)
	}
	r.await("the drain of an empty node", id, func(n *api.Node) bool { return n.DrainStrategy == nil })
}
