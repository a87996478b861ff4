package nodes_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// returning is a node that is down and may still have a volume mounted.
func returning(t *testing.T) *fixture {
	r := open(t, nodes.Heartbeat{})
	r.register(plugged("n1", true))
	r.beat("n1", api.NodeStatusReady)
	r.change(func(n *api.Node) {
		n.Status = api.NodeStatusDown
		n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "a1", PluginID: "p", ExternalID: "x"}}
	})
	return r
}

// plugged is a node with a plugin.
func plugged(id string, healthy bool) *api.Node {
	n := node(id)
	n.CSINodePlugins = map[string]*api.CSIInfo{"p": {Healthy: healthy}}
	return n
}

func (r *fixture) change(change func(*api.Node)) {
	r.t.Helper()
	r.edit(func(tx *state.Txn) {
		n := *tx.Node("n1")
		change(&n)
		tx.PutNode(&n)
	})
}

func (r *fixture) is(status string) {
	r.t.Helper()
	if n := r.state.Read().Node("n1"); n.Status != status {
		r.t.Fatalf("the node is %s, want %s", n.Status, status)
	}
}

func TestNodeThatComesBackIsReadyWhenItIsClean(t *testing.T) {
	t.Parallel()
	r := returning(t)
	r.place(api.JobTypeSystem, "sys", "elsewhere")
	if out := r.beat("n1", api.NodeStatusReady); !out.Held || len(out.EvalIDs) != 0 {
		t.Errorf("answer %+v", out)
	}
	r.is(api.NodeStatusInit)
	before := r.state.Read().Index()
	if out := r.beat("n1", api.NodeStatusReady); !out.Held || r.state.Read().Index() != before {
		t.Errorf("answer %+v at %d, after %d", out, r.state.Read().Index(), before)
	}
	again := plugged("n1", true)
	again.Status = api.NodeStatusReady
	if out := r.register(again); !out.Held {
		t.Errorf("answer %+v to a registration", out)
	}
	r.is(api.NodeStatusInit)
	r.change(func(n *api.Node) { n.StaleMounts = nil })
	if out := r.beat("n1", api.NodeStatusReady); out.Held || len(out.EvalIDs) != 1 {
		t.Errorf("answer %+v", out)
	}
	r.is(api.NodeStatusReady)
}

func TestNodeThatComesBackUnmountsWhatIsNotGivenUpEither(t *testing.T) {
	t.Parallel()
	r := returning(t)
	r.change(func(n *api.Node) { n.StaleMounts = nil })
	held := &api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a1", NodeID: "n1", PluginID: "p", State: api.ClaimReleasing}
	r.edit(func(tx *state.Txn) { tx.PutClaim(held) })
	r.beat("n1", api.NodeStatusReady)
	r.is(api.NodeStatusInit)
	r.edit(func(tx *state.Txn) { tx.DeleteClaim("default", "v", "a1", "") })
	r.beat("n1", api.NodeStatusReady)
	r.is(api.NodeStatusReady)
}

func TestNodeIsNotHeldForEver(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]int64{"long ago": -31, "by a clock that was fast": 24 * 60 * 60} {
		t.Run(name, func(t *testing.T) {
			r := returning(t)
			r.beat("n1", api.NodeStatusReady)
			r.is(api.NodeStatusInit)
			r.change(func(n *api.Node) { n.StatusUpdatedAt += by })
			if out := r.beat("n1", api.NodeStatusReady); out.Held {
				t.Errorf("answer %+v", out)
			}
			r.is(api.NodeStatusReady)
			if n := r.state.Read().Node("n1"); len(n.StaleMounts) != 1 {
				t.Errorf("the stale mount is forgotten: %+v", n.StaleMounts)
			}
		})
	}
}

func TestStaleMountsAreTheServersWord(t *testing.T) {
	t.Parallel()
	r := returning(t)
	r.register(plugged("n1", true))
	if n := r.state.Read().Node("n1"); len(n.StaleMounts) != 1 {
		t.Errorf("a registration took the stale mounts away: %+v", n.StaleMounts)
	}
}

// A registration may be overtaken by the report that what it brings is unmounted.
func TestMountsWhoseEndIsKnownAreNotNotedAgain(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.register(plugged("n1", true))
	r.edit(func(tx *state.Txn) {
		tx.PutVolume(&api.Volume{
			VolumeSpec: api.VolumeSpec{ID: "v", Namespace: "default", PluginID: "p", ExternalID: "x"},
			Releases:   []*api.VolumeRelease{{AllocID: "told", NodeID: "n1"}, {AllocID: "lost", NodeID: "n2"}},
		})
		tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "claimed", NodeID: "n1", State: api.ClaimReady})
		tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "detaching", NodeID: "n1", State: api.ClaimUnmounted})
	})
	for range 2 {
		again := plugged("n1", true)
		for _, alloc := range []string{"claimed", "detaching", "told", "lost"} {
			again.StaleMounts = append(again.StaleMounts, &api.StaleMount{Namespace: "default", VolumeID: "v", AllocID: alloc, PluginID: "p", ExternalID: "x"})
		}
		r.register(again)
		if m := r.state.Read().Node("n1").StaleMounts; len(m) != 1 || m[0].AllocID != "lost" || m[0].Since == 0 {
			t.Errorf("stale mounts %+v", m)
		}
	}
}

// A node that could not read its record of a mount does not know what its driver calls the volume.
func TestServersKnowTheVolumeOfAnUnreadableRecord(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.edit(func(tx *state.Txn) {
		tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{ID: "v", Namespace: "default", PluginID: "p", ExternalID: "x"}})
	})
	n := plugged("n1", true)
	n.StaleMounts = []*api.StaleMount{
		{Namespace: "default", VolumeID: "v", AllocID: "a", PluginID: "p"},
		{Namespace: "default", VolumeID: "v", AllocID: "b"},
		{Namespace: "default", VolumeID: "v", AllocID: "c", PluginID: "earlier"},
		{Namespace: "default", VolumeID: "gone", AllocID: "d", PluginID: "p"},
	}
	r.register(n)
	var got []string
	for _, m := range r.state.Read().Node("n1").StaleMounts {
		got = append(got, m.PluginID+":"+m.ExternalID)
	}
	if want := []string{"p:x", "p:x", "earlier:", "p:"}; !slices.Equal(got, want) {
		t.Errorf("they are noted as %v, want %v", got, want)
	}
}

// TestForgottenNodeBringsItsMounts takes a node that was collected as garbage, and came back.
func TestForgottenNodeBringsItsMounts(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	claim := &api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a2", NodeID: "n1", State: api.ClaimReady}
	r.edit(func(tx *state.Txn) { tx.PutClaim(claim) })
	n := plugged("n1", true)
	n.Status = api.NodeStatusReady
	n.StaleMounts = []*api.StaleMount{
		{Namespace: "default", VolumeID: "v", AllocID: "a1", PluginID: "p"}, {Namespace: "default", VolumeID: "v", AllocID: "a2", PluginID: "p"},
	}
	if out := r.register(n); !out.Held {
		t.Errorf("answer %+v", out)
	}
	if m := r.state.Read().Node("n1").StaleMounts; len(m) != 1 || m[0].AllocID != "a1" || m[0].Since == 0 {
		t.Errorf("stale mounts %+v", m)
	}
	r.is(api.NodeStatusInit)
}

// TestKnownNodeBringsItsMounts takes servers whose state is older than the node's claims: an older snapshot was restored.
func TestKnownNodeBringsItsMounts(t *testing.T) {
	t.Parallel()
	r := returning(t)
	r.edit(func(tx *state.Txn) {
		tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{ID: "w", Namespace: "default", PluginID: "p", ExternalID: "ext-w"}})
		tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "w", AllocID: "claimed", NodeID: "n1", State: api.ClaimReady})
	})
	n := plugged("n1", true)
	n.StaleMounts = []*api.StaleMount{
		{Namespace: "default", VolumeID: "v", AllocID: "a1", PluginID: "p", ExternalID: "x"}, // noted already
		{Namespace: "default", VolumeID: "w", AllocID: "claimed", PluginID: "p", ExternalID: "ext-w"},
		{Namespace: "default", VolumeID: "w", AllocID: "damaged"},
	}
	r.register(n)
	m := r.state.Read().Node("n1").StaleMounts
	if len(m) != 2 || m[0].AllocID != "a1" || m[1].AllocID != "damaged" || m[1].PluginID != "p" || m[1].ExternalID != "ext-w" {
		t.Errorf("stale mounts %+v", m)
	}
}

func TestNodeOfAnotherBootIsClean(t *testing.T) {
	t.Parallel()
	r := returning(t)
	r.change(func(n *api.Node) { n.BootID = "first" })
	n := plugged("n1", true)
	n.BootID, n.Status = "second", api.NodeStatusReady
	if out := r.register(n); out.Held {
		t.Errorf("answer %+v", out)
	}
	r.is(api.NodeStatusReady)
	if m := r.state.Read().Node("n1").StaleMounts; len(m) != 0 {
		t.Errorf("stale mounts %+v", m)
	}
}

// TestNodeThatCannotUnmountIsNotHeld has a node come back without the plugin that it needs to unmount: that is
// placed on ready nodes only.
func TestNodeThatCannotUnmountIsNotHeld(t *testing.T) {
	t.Parallel()
	r := returning(t)
	n := plugged("n1", false)
	n.Status = api.NodeStatusReady
	if out := r.register(n); out.Held {
		t.Errorf("answer %+v", out)
	}
	r.is(api.NodeStatusReady)
	if m := r.state.Read().Node("n1").StaleMounts; len(m) != 1 {
		t.Errorf("stale mounts %+v", m)
	}
}

// What a node brings has the driver's id of its machine, at the latest when its plugin is there.
func TestMountsOfANodeHaveItsMachine(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	mount := &api.StaleMount{Namespace: "default", VolumeID: "v", AllocID: "a", PluginID: "p", ExternalID: "x"}
	n := plugged("n1", true)
	n.CSINodePlugins = nil
	n.StaleMounts = []*api.StaleMount{mount}
	r.register(n)
	n = plugged("n1", true)
	n.CSINodePlugins["p"].NodeInfo = &api.CSINodeInfo{ID: "machine"}
	n.StaleMounts = []*api.StaleMount{mount}
	r.register(n)
	if m := r.state.Read().Node("n1").StaleMounts; len(m) != 1 || m[0].ProviderNodeID != "machine" {
		t.Errorf("noted: %+v", m[0])
	}
}
