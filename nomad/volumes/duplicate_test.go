package volumes_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/gc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// An agent that lost its data directory is a new node on the old machine. Attaching a volume to it gives the tasks of
// before their path back, as an attach to the old node would.
func TestNewNodeOfAMachineWaitsForTheMountsOfTheOldOne(t *testing.T) {
	t.Parallel()
	stale := &api.StaleMount{Namespace: "default", VolumeID: "v", AllocID: "a1", PluginID: "p", ExternalID: "ext-v"}
	other := *stale
	other.ExternalID = "ext-other"
	noted := *stale
	noted.ProviderNodeID = "provider-then"
	for name, c := range map[string]struct {
		machine string
		boot    string
		mount   *api.StaleMount
		waits   bool
	}{
		"of the same machine":                                           {"provider-old", "boot-1", stale, true},
		"of the same machine, boots not known":                          {"provider-old", "", stale, true},
		"of the same machine, booted since":                             {"provider-old", "boot-2", stale, false},
		"of another machine":                                            {"provider-new", "boot-1", stale, false},
		"of another volume":                                             {"provider-old", "boot-1", &other, false},
		"that plugin of the old node is gone, and its machine is noted": {"provider-then", "boot-1", &noted, true},
		"of another machine than noted":                                 {"provider-new", "boot-1", &noted, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.Node("old", volumestest.NodeOnly)
			var attached atomic.Int32
			r.Node("new").On("Controller.Publish", func(context.Context, any) error { attached.Add(1); return nil })
			r.Change("old", func(n *api.Node) { n.BootID, n.StaleMounts = "boot-1", []*api.StaleMount{c.mount} })
			if c.mount.ProviderNodeID != "" {
				r.Change("old", func(n *api.Node) { n.CSINodePlugins = nil })
			}
			r.Change("new", func(n *api.Node) { n.BootID, n.CSINodePlugins["p"].NodeInfo.ID = c.boot, c.machine })
			r.Register(volumestest.Spec("v"))
			r.MustPlace(volumestest.Alloc("a2", "new", "v", writer))
			if !c.waits {
				r.MustClaim("v", "a2", "new")
				return
			}
			out, err := r.Service.Claim(r.Context(), &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a2", NodeID: "new", NodeSecret: "secret-new", Tell: true})
			if err != nil || !strings.Contains(out.Waiting, "node new is the machine that node old was") || !strings.Contains(out.Waiting, "volume detach -force v old") {
				t.Errorf("waits for %+v, %v", out, err)
			}
			if attached.Load() > 0 {
				t.Fatal("it is attached to the machine of the old node")
			}
			r.Edit(func(tx *state.Txn) { // what "nomad node purge" does
				n := tx.Node("old")
				tx.DeleteNode("old")
				ledger.Purged(tx, n)
			})
			r.MustClaim("v", "a2", "new")
		})
	}
}

// The row of an old node is not collected as long as a new one on its machine waits for what it may have mounted: its
// tasks may run.
func TestOldNodeOfAMachineStaysWhileTheNewOneWaitsForItsMounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("old", volumestest.NodeOnly)
	r.Node("new")
	r.Change("old", func(n *api.Node) {
		n.BootID, n.StaleMounts = "boot-1", []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "a1", PluginID: "p", ExternalID: "ext-v", ProviderNodeID: "machine"}}
		n.CSINodePlugins = nil
	})
	r.Change("new", func(n *api.Node) { n.BootID, n.CSINodePlugins["p"].NodeInfo.ID = "boot-1", "machine" })
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a2", "new", "v", writer))
	r.Down("old", time.Minute)
	collect := func() {
		if err := r.Try(func(tx *state.Txn) error { _, err := (&gc.Reap{Nodes: []string{"old"}}).Apply(tx); return err }); err != nil {
			t.Fatal(err)
		}
	}
	if collect(); r.State.Read().Node("old") == nil {
		t.Fatal("the row is collected with what it says of the machine")
	}
	r.Change("new", func(n *api.Node) { n.BootID = "boot-2" })
	if collect(); r.State.Read().Node("old") != nil {
		t.Fatal("the row is not collected after a boot")
	}
	r.MustClaim("v", "a2", "new")
}

// Two nodes that one machine was, and that is gone, do not keep one another's row: neither will attach anything.
func TestOldNodesOfAMachineThatIsGoneAreCollected(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("third")
	for _, id := range []string{"first", "second"} {
		r.Node(id, volumestest.NodeOnly)
		r.Change(id, func(n *api.Node) {
			n.BootID, n.CSINodePlugins["p"].NodeInfo.ID = "boot-1", "machine"
			n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: id, AllocID: "a-" + id, PluginID: "p", ExternalID: "ext-" + id, ProviderNodeID: "machine"}}
		})
	}
	r.Down("first", time.Minute)
	collect := func() {
		t.Helper()
		if err := r.Try(func(tx *state.Txn) error {
			_, err := (&gc.Reap{Nodes: []string{"first", "second"}}).Apply(tx)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if collect(); r.State.Read().Node("first") == nil {
		t.Fatal("the row is collected while the machine is there")
	}
	r.Down("second", time.Minute)
	if err := r.Try(func(tx *state.Txn) error { _, err := (&gc.Reap{Nodes: []string{"first"}}).Apply(tx); return err }); err != nil {
		t.Fatal(err)
	}
	if r.State.Read().Node("first") == nil {
		t.Fatal("the row is collected while the other node may come back")
	}
	if collect(); r.State.Read().Node("first") != nil || r.State.Read().Node("second") != nil {
		t.Error("the rows stay")
	}
}

// Where nothing is attached nobody waits for the mounts of another node, and drivers may call all nodes alike.
func TestOldNodeIsCollectedWhereNothingIsAttached(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("old", volumestest.NoController)
	r.Node("new", volumestest.NoController)
	r.Change("old", func(n *api.Node) {
		n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "a1", PluginID: "p", ExternalID: "ext-v", ProviderNodeID: "nfs"}}
	})
	r.Change("new", func(n *api.Node) { n.CSINodePlugins["p"].NodeInfo.ID = "nfs" })
	r.Down("old", time.Minute)
	if err := r.Try(func(tx *state.Txn) error { _, err := (&gc.Reap{Nodes: []string{"old"}}).Apply(tx); return err }); err != nil {
		t.Fatal(err)
	}
	if r.State.Read().Node("old") != nil {
		t.Error("the row stays")
	}
}

// What a claim that is given up leaves behind has the driver's id of the machine, which the attachment knows when the
// node's plugin is gone.
func TestMountOfALostNodeHasItsMachine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("old", volumestest.NodeOnly)
	r.Node("new")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "old", "v", writer))
	r.MustClaim("v", "a1", "old")
	r.Change("old", func(n *api.Node) { n.CSINodePlugins = nil })
	r.Ends("a1", api.AllocClientStatusLost)
	r.Down("old", time.Minute)
	r.Free("v")
	m := r.State.Read().Node("old").StaleMounts
	if len(m) != 1 || m[0].ProviderNodeID != "provider-old" {
		t.Fatalf("noted: %+v", m)
	}
}

// Who waits for the mounts of an old node goes on when that turns out to be another machine.
func TestWaitEndsWhenTheOldNodeIsAnotherMachine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("old", volumestest.NodeOnly)
	r.Node("new")
	r.Register(volumestest.Spec("v"))
	r.Edit(func(tx *state.Txn) {
		n := *tx.Node("old")
		n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "a1", PluginID: "p", ExternalID: "ext-v"}}
		n.CSINodePlugins = cloneWith(n.CSINodePlugins, "provider-new")
		tx.PutNode(&n)
	})
	r.MustPlace(volumestest.Alloc("a2", "new", "v", writer))
	if r.ClaimState("v", "a2") != api.ClaimTaken {
		t.Fatalf("it does not wait: %s", r.Describe())
	}
	r.Edit(func(tx *state.Txn) {
		n := *tx.Node("old")
		n.CSINodePlugins = cloneWith(n.CSINodePlugins, "provider-other")
		tx.PutNode(&n)
		if err := ledger.NodeChanged(tx, "old"); err != nil {
			t.Error(err)
		}
	})
	r.MustClaim("v", "a2", "new")
}

func cloneWith(plugins map[string]*api.CSIInfo, machine string) map[string]*api.CSIInfo {
	i := *plugins["p"]
	info := *i.NodeInfo
	info.ID, i.NodeInfo = machine, &info
	return map[string]*api.CSIInfo{"p": &i}
}
