package nodes_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// After a restore a heartbeat is answered as that of an unknown node, which registers with its mounts.
func TestNodeRegistersAgainAfterARestore(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.register(plugged("n1", true))
	r.beat("n1", api.NodeStatusReady)
	r.edit(func(tx *state.Txn) {
		tx.PutRollback(&api.Rollback{At: 77, Unreported: []string{"n1", "n2"}})
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
	if b := r.state.Read().Rollback(); len(b.Unreported) != 1 || b.Unreported[0] != "n2" {
		t.Errorf("still asked are %+v", b)
	}
}

// A registration that was on its way during the restore, or is repeated later, does not contain what the node got in the
// meantime.
func TestRegistrationThatWasBuiltBeforeARestoreIsRefused(t *testing.T) {
	t.Parallel()
	for what, known := range map[string]bool{"known": true, "unknown": false} {
		r := open(t, nodes.Heartbeat{})
		n := plugged("n1", true)
		n.BootID = "the boot of the mount"
		if known {
			before := plugged("n1", true)
			before.BootID = "the boot of the older state"
			r.register(before)
		}
		r.edit(func(tx *state.Txn) {
			tx.PutRollback(&api.Rollback{At: 77, Unreported: []string{"n1", "n2"}})
			if !known {
				tx.PutRollback(&api.Rollback{At: 77, Unreported: []string{"n2"}})
			}
			tx.PutClaim(&api.VolumeClaim{
				Namespace: "default", VolumeID: "v", AllocID: "a1", NodeID: "n1", PluginID: "p", ExternalID: "x",
				AccessMode: api.AccessSingleNodeWriter, Mode: api.ClaimWrite, State: api.ClaimReady,
			})
		})
		for _, late := range []int64{api.RollbackUnseen, 76} {
			out, err := r.Register(t.Context(), &api.NodeRegisterRequest{Node: n, Rollback: late})
			if err != nil || out.Rollback != 77 || out.HeartbeatTTL != 0 {
				t.Fatalf("%s: a registration of before is answered with %+v: %v", what, out, err)
			}
			if tx := r.state.Read(); tx.Claim("default", "v", "a1", "") == nil || known && len(tx.Rollback().Unreported) != 2 || !known && tx.Node("n1") != nil {
				t.Fatalf("%s: a registration of before is believed: still asked are %+v", what, tx.Rollback())
			}
		}
		n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "a1", PluginID: "p", ExternalID: "x"}}
		for range 2 { // it may come twice
			if out, err := r.Register(t.Context(), &api.NodeRegisterRequest{Node: n, Rollback: 77}); err != nil || out.Rollback != 0 {
				t.Fatalf("%s: the registration is answered with %+v: %v", what, out, err)
			}
		}
		if c, b := r.state.Read().Claim("default", "v", "a1", ""), r.state.Read().Rollback(); c == nil || c.State != api.ClaimReady || len(b.Unreported) != 1 {
			t.Errorf("%s: the claim is %+v, still asked are %+v", what, c, b)
		}
	}
}

// A node that does not return is not waited for when an operator has purged it, which the reason of the wait names.
func TestPurgeEndsTheWaitForANodeAfterARestore(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.register(plugged("known", true))
	r.edit(func(tx *state.Txn) {
		tx.PutRollback(&api.Rollback{At: 77, Unreported: []string{"unknown", "known"}})
	})
	if why := ledger.Held(r.state.Read(), "p", "x"); !strings.Contains(why, "/v1/node/unknown/purge") {
		t.Errorf("the reason is: %s", why)
	}
	for _, id := range []string{"unknown", "known"} {
		if _, err := r.Purge(t.Context(), &api.NodeWriteRequest{NodeID: id}); err != nil {
			t.Fatalf("purge %s: %v", id, err)
		}
	}
	if b := r.state.Read().Rollback(); b == nil || len(b.Unreported) != 0 {
		t.Errorf("still asked are %+v", b)
	}
	if _, err := r.Purge(t.Context(), &api.NodeWriteRequest{NodeID: "unknown"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("purged twice: %v", err)
	}
}

// The archive that a new cluster restores does not contain nodes that joined after it was saved.
func TestUnknownNodeReportsItsMountsAfterARestoreToo(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.edit(func(tx *state.Txn) { tx.PutRollback(&api.Rollback{At: 77, Unreported: []string{"n2"}}) })
	n := plugged("n1", true)
	n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "a1", PluginID: "p", ExternalID: "x"}}
	r.register(n)
	if c := r.state.Read().Claim("default", "v", "a1", ""); c == nil || c.State != api.ClaimReleasing {
		t.Errorf("what it has mounted is claimed as %+v", c)
	}
	if b := r.state.Read().Rollback(); b == nil || len(b.Unreported) != 1 {
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
