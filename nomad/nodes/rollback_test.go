package nodes_test

import (
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Servers that went back to an older state ask a node for what it has mounted when they hear of it.
func TestNodeRegistersAgainAfterARestore(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.register(plugged("n1", true))
	r.beat("n1", api.NodeStatusReady)
	r.edit(func(tx *state.Txn) {
		tx.PutRollback(&api.Rollback{Untold: []string{"n1", "n2"}, Awaited: []string{"n1", "n2"}})
	})
	for range 2 { // one that does not register at once is asked again
		_, err := r.Heartbeat(t.Context(), &api.NodeHeartbeatRequest{NodeID: "n1", NodeSecret: "secret of n1", Status: api.NodeStatusReady})
		if !errors.Is(err, fault.NotFound) {
			t.Fatalf("a heartbeat is answered: %v", err)
		}
	}
	n := plugged("n1", true)
	n.StaleMounts = []*api.StaleMount{
		{Namespace: "default", VolumeID: "v", AllocID: "a1", PluginID: "p", ExternalID: "x", Lease: 7},
		{Namespace: "default", VolumeID: "unread", AllocID: "a2"},
	}
	r.register(n)
	r.beat("n1", api.NodeStatusReady)
	c := r.state.Read().Claim("default", "v", "a1", "")
	if c == nil || c.State != api.ClaimReleasing || c.NodeID != "n1" || c.AccessMode != api.AccessSingleNodeWriter || c.Lease < 7 {
		t.Errorf("what it has mounted is claimed as %+v", c)
	}
	if m := r.state.Read().Node("n1").StaleMounts; len(m) != 1 || m[0].AllocID != "a2" {
		t.Errorf("stale mounts %+v", m)
	}
	if b := r.state.Read().Rollback(); len(b.Untold) != 1 || len(b.Awaited) != 1 || b.Untold[0] != "n2" {
		t.Errorf("still asked are %+v", b)
	}
}

// A restore into a new cluster knows nothing of nodes that joined after the snapshot.
func TestUnknownNodeTellsItsMountsAfterARestoreToo(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.edit(func(tx *state.Txn) { tx.PutRollback(&api.Rollback{Untold: []string{"n2"}}) })
	n := plugged("n1", true)
	n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "a1", PluginID: "p", ExternalID: "x"}}
	r.register(n)
	if c := r.state.Read().Claim("default", "v", "a1", ""); c == nil || c.State != api.ClaimReleasing {
		t.Errorf("what it has mounted is claimed as %+v", c)
	}
	if b := r.state.Read().Rollback(); b == nil || len(b.Untold) != 1 {
		t.Errorf("still asked are %+v", b)
	}
}

// The boot that an older state knows may have been before the one in which a volume was mounted.
func TestMountsOfThePresentBootAreKept(t *testing.T) {
	t.Parallel()
	r := returning(t)
	r.change(func(n *api.Node) { n.BootID = "first" })
	n := plugged("n1", true)
	n.BootID = "second"
	n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "w", AllocID: "a2", PluginID: "p", ExternalID: "y"}}
	r.edit(func(tx *state.Txn) {
		for volume, alloc := range map[string]string{"z": "a3", "v": "a4"} {
			tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: volume, AllocID: alloc, NodeID: "n1", PluginID: "p", ExternalID: volume, State: api.ClaimReleasing})
		}
	})
	n.StaleMounts = append(n.StaleMounts, &api.StaleMount{Namespace: "default", VolumeID: "z", AllocID: "a3", PluginID: "p", ExternalID: "z"})
	r.register(n)
	if m := r.state.Read().Node("n1").StaleMounts; len(m) != 1 || m[0].AllocID != "a2" {
		t.Errorf("stale mounts %+v", m)
	}
	if tx := r.state.Read(); tx.Claim("default", "z", "a3", "") == nil || tx.Claim("default", "v", "a4", "") != nil {
		t.Error("the claim of what is mounted is gone, or that of before the boot is there")
	}
}
