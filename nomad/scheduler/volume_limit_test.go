package scheduler_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func (c *cluster) learn(node string, l *api.CSILimit) {
	c.write(func(tx *state.Txn) {
		n := *tx.Node(node)
		n.CSILimits = map[string]*api.CSILimit{"p": l}
		tx.PutNode(&n)
	})
}

// A node that a driver has found full gets no new volumes of it, but what it has may be shared; the
// limit applies whether the driver declares one or not.
func TestLearnedLimitSteersPlacement(t *testing.T) {
	for _, declared := range []int64{0, 10} {
		c := newCluster(t)
		c.node("n1", plugin(declared, nil))
		multi := func(r *api.VolumeRequest) { r.AccessMode = string(api.AccessMultiNodeMultiWriter) }
		for _, id := range []string{"v", "w"} {
			c.volume(id, api.AccessMultiNodeMultiWriter)
		}
		first := job("first", api.JobTypeService, 1, withVolume("v", multi))
		c.register(first)
		c.claim(c.run(first), "v")
		c.write(func(tx *state.Txn) {
			for held := range tx.ClaimsByNode("n1") {
				shared := *held
				shared.AccessMode = api.AccessMultiNodeMultiWriter
				tx.PutClaim(&shared)
			}
		})
		c.learn("n1", &api.CSILimit{Volumes: 1, Until: 1})

		second := job("second", api.JobTypeService, 1, withVolume("w", multi))
		c.register(second)
		o := c.run(second)
		if len(placed(o)) != 0 || !refusedFor(o, "has refused more than 1 volumes on client n1") || !slices.Contains(o.Missing, "csi-plugin:p") {
			t.Fatalf("declared %d: placed %d, missing %v: %+v", declared, len(placed(o)), o.Missing, o.Failed["g"])
		}
		shared := job("shared", api.JobTypeService, 1, withVolume("v", multi))
		c.register(shared)
		if o := c.run(shared); len(placed(o)) != 1 {
			t.Errorf("declared %d: a volume that is there already was refused: %+v", declared, o.Failed["g"])
		}
		c.node("n2", plugin(declared, nil))
		if p := placed(c.run(second)); len(p) != 1 || p[0].NodeID != "n2" {
			t.Errorf("declared %d: placed %+v", declared, p)
		}
	}
}

// TestStaleMountSteersPlacement has a node come back with a volume that was given up meanwhile.
func TestStaleMountSteersPlacement(t *testing.T) {
	c := newCluster(t)
	c.node("n1", plugin(0, nil))
	c.volume("v", api.AccessSingleNodeWriter)
	c.volume("w", api.AccessSingleNodeWriter)
	c.write(func(tx *state.Txn) {
		n, v := *tx.Node("n1"), tx.Volume("default", "v")
		n.StaleMounts = []*api.StaleMount{{VolumeID: "v", AllocID: "old", PluginID: v.PluginID, ExternalID: v.RemoteID()}}
		tx.PutNode(&n)
	})
	j := job("j", api.JobTypeService, 1, withVolume("v"))
	c.register(j)
	if o := c.run(j); len(placed(o)) != 0 || !refusedFor(o, "may still be mounted on node n1 for allocation old") || !slices.Contains(o.Missing, "csi-volume:default:v") {
		t.Fatalf("placed %d, missing %v: %+v", len(placed(o)), o.Missing, o.Failed["g"])
	}
	other := job("other", api.JobTypeService, 1, withVolume("w"))
	c.register(other)
	if o := c.run(other); len(placed(o)) != 1 {
		t.Errorf("the node is refused to another volume: %+v", o.Failed["g"])
	}
	c.node("n2", plugin(0, nil))
	if p := placed(c.run(j)); len(p) != 1 || p[0].NodeID != "n2" {
		t.Errorf("placed %+v", p)
	}
}

// machine gives a node its driver's id, and a controller that attaches volumes.
func machine(id string) func(*api.Node) {
	return func(n *api.Node) {
		n.CSINodePlugins["p"].NodeInfo.ID = id
		n.CSIControllerPlugins = map[string]*api.CSIInfo{"p": {
			PluginID: "p", Healthy: true, ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: true},
		}}
	}
}

// TestStaleMountOfTheMachineSteersPlacement has an agent that lost its data directory come back as another node beside
// the tasks of the old one.
func TestStaleMountOfTheMachineSteersPlacement(t *testing.T) {
	c := newCluster(t)
	c.node("old", plugin(0, nil), machine("m"))
	c.node("new", plugin(0, nil), machine("m"))
	c.volume("v", api.AccessSingleNodeWriter)
	c.write(func(tx *state.Txn) {
		n, v := *tx.Node("old"), tx.Volume("default", "v")
		n.Status, n.CSINodePlugins = api.NodeStatusDown, nil
		n.StaleMounts = []*api.StaleMount{{VolumeID: "v", AllocID: "lost", PluginID: v.PluginID, ExternalID: v.RemoteID(), ProviderNodeID: "m"}}
		tx.PutNode(&n)
	})
	j := job("j", api.JobTypeService, 1, withVolume("v"))
	c.register(j)
	if o := c.run(j); len(placed(o)) != 0 || !refusedFor(o, "node new is the machine that node old was") || !slices.Contains(o.Missing, "csi-volume:default:v") {
		t.Fatalf("placed %d, missing %v: %+v", len(placed(o)), o.Missing, o.Failed["g"])
	}
	c.node("n2", plugin(0, nil))
	if p := placed(c.run(j)); len(p) != 1 || p[0].NodeID != "n2" {
		t.Errorf("placed %+v", p)
	}
}
