package ledger_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// told is the node's row of an instance of the job that the node reports.
func (w world) told(j *api.Job, node string, change func(*api.Node, *api.CSIInfo)) {
	w.put(func(tx *state.Txn) {
		i := &api.CSIInfo{PluginID: "p", AllocID: j.ID + node, Healthy: true, ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: true}}
		n := &api.Node{ID: node, Status: api.NodeStatusReady, Datacenter: "dc1", NodePool: "default"}
		change(n, i)
		n.CSIControllerPlugins, n.CSINodePlugins = map[string]*api.CSIInfo{"p": i}, map[string]*api.CSIInfo{"p": i}
		tx.PutNode(n)
	})
}

// Another job's instance stands in for one that is stopped when it can do what that did.
func TestOtherJobsStandInWhenTheyCan(t *testing.T) {
	t.Parallel()
	const attached = `external volume "x" attached to node n1`
	for name, x := range map[string]struct {
		row   func(*api.Node, *api.CSIInfo)
		texts []string
	}{
		"healthy":                {func(*api.Node, *api.CSIInfo) {}, nil},
		"unhealthy":              {func(_ *api.Node, i *api.CSIInfo) { i.Healthy = false }, []string{attached}},
		"on a node that is down": {func(n *api.Node, _ *api.CSIInfo) { n.Status = api.NodeStatusDown }, []string{attached}},
		"behind another instance": {func(_ *api.Node, i *api.CSIInfo) {
			i.AllocID, i.Healthy = "newer", false
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			old, other := plugin("old", monolith), plugin("other", controllerType)
			w.jobs(old, other)
			w.runs(other, "n2")
			w.told(other, "n2", x.row)
			w.put(func(tx *state.Txn) {
				tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n1", State: api.AttachmentUnpublishing})
			})
			w.check(name, old, nil, x.texts...)
		})
	}
}

// What is being created needs a controller, of whichever job.
func TestOperationsNeedAController(t *testing.T) {
	t.Parallel()
	w := open(t)
	old, other := plugin("old", monolith), plugin("other", controllerType)
	w.jobs(old, other)
	w.runs(old, "n1")
	w.runs(other, "n2")
	w.told(other, "n2", func(_ *api.Node, i *api.CSIInfo) { i.Healthy = false })
	w.put(func(tx *state.Txn) {
		tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{Namespace: "default", ID: "new", PluginID: "p"}, Provision: api.VolumeProvision{State: api.VolumeCreating}})
		tx.PutSnapshotIntent(&api.SnapshotIntent{PluginID: "p", Name: "monday"})
	})
	w.check("the other is unhealthy", old, nil, `volume "new", which is creating`, `snapshot "monday", which is being made`)
	w.told(other, "n2", func(*api.Node, *api.CSIInfo) {})
	w.check("the other is healthy", old, nil)
}

// A mount on a node that is another system job's, and on which this one runs nothing, keeps this one from nothing.
func TestMountOnANodeOfAnotherJobIsItsOwn(t *testing.T) {
	t.Parallel()
	w := open(t)
	old, other := plugin("old", monolith), plugin("other", monolith)
	old.Datacenters, other.Datacenters = []string{"dc2"}, []string{"dc1"}
	w.jobs(old, other)
	w.runs(old, "n2")
	w.runs(other, "n3")
	w.told(other, "n3", func(*api.Node, *api.CSIInfo) {})
	w.put(func(tx *state.Txn) {
		tx.PutNode(&api.Node{ID: "n1", Status: api.NodeStatusDown, Datacenter: "dc1", NodePool: "default"})
	})
	w.claim(api.ClaimReleasing, false)
	w.put(func(tx *state.Txn) { // nothing is attached
		tx.PutNode(&api.Node{ID: "n3", Status: api.NodeStatusReady, CSIControllerPlugins: map[string]*api.CSIInfo{
			"p": {PluginID: "p", AllocID: "othern3", Healthy: true, ControllerInfo: &api.CSIControllerInfo{}},
		}})
	})
	w.check("the node is the other's", old, nil)
	w.check("it is this one's", other, nil, user)
	w.runs(old, "n1")
	w.check("this one runs there all the same", old, nil, user)
}

// An instance beside it that is not healthy ends no mount.
func TestUnhealthyInstanceDoesNotStandInForMounts(t *testing.T) {
	t.Parallel()
	w := open(t)
	old, other := plugin("old", nodeType), plugin("other", nodeType)
	w.jobs(old, other)
	w.runs(other, "n1")
	w.claim(api.ClaimReady, false)
	w.told(other, "n1", func(*api.Node, *api.CSIInfo) {})
	w.check("healthy", old, nil)
	w.told(other, "n1", func(_ *api.Node, i *api.CSIInfo) { i.Healthy = false })
	w.runs(old, "n1")
	w.check("unhealthy", old, nil, user)
}
