package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/jobs/ledger"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	nodeType, controllerType, monolith = api.CSIPluginTypeNode, api.CSIPluginTypeController, api.CSIPluginTypeMonolith
)

func plugin(id string, types ...string) *api.Job {
	j := &api.Job{ID: id, Namespace: "default", Type: api.JobTypeSystem}
	for _, typ := range types {
		j.TaskGroups = append(j.TaskGroups, &api.TaskGroup{Name: typ, Count: 1, Tasks: []*api.Task{
			{Name: "t", CSIPluginConfig: &api.CSIPluginConfig{ID: "p", Type: typ}},
		}})
	}
	return j
}

type world struct {
	t *testing.T
	s *state.Store
}

func open(t *testing.T) world {
	t.Helper()
	s := state.New()
	return world{t, s}
}

func (w world) put(edit func(*state.Txn)) {
	tx := w.s.Write(w.s.Read().Index()+1, time.Unix(1, 0))
	edit(tx)
	tx.Commit()
}

func (w world) jobs(list ...*api.Job) {
	w.put(func(tx *state.Txn) {
		for _, j := range list {
			tx.PutJob(j)
		}
	})
}

// runs places a running instance of the first group of the job.
func (w world) runs(j *api.Job, node string) {
	w.put(func(tx *state.Txn) {
		tx.PutAlloc(&api.Allocation{
			ID: j.ID + node, Namespace: "default", JobID: j.ID, Job: j, TaskGroup: j.TaskGroups[0].Name, NodeID: node,
			DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusRunning,
		})
	})
}

func (w world) claim(at api.ClaimState, attach bool) {
	w.put(func(tx *state.Txn) {
		tx.PutClaim(&api.VolumeClaim{
			Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "n1", JobID: "db", PluginID: "p", ExternalID: "x", State: at, Attach: attach,
		})
	})
}

// controllerSays reports whether the plugin's controller attaches volumes.
func (w world) controllerSays(attaches bool) {
	w.put(func(tx *state.Txn) {
		tx.PutNode(&api.Node{ID: "c1", Status: api.NodeStatusReady, CSIControllerPlugins: map[string]*api.CSIInfo{
			"p": {PluginID: "p", Healthy: true, ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: attaches}},
		}})
	})
}

// check wants the change to be refused with all of the texts, or allowed when there are none.
func (w world) check(what string, old, next *api.Job, texts ...string) {
	w.t.Helper()
	err := ledger.Needed(w.s.Read(), old, next)
	if (err != nil) != (len(texts) > 0) || err != nil && !errors.Is(err, fault.Conflict) {
		w.t.Errorf("%s: %v", what, err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			w.t.Errorf("%s: %q does not say %q", what, err, text)
		}
	}
}

const user = `volume "v" by allocation a of job "db" on node n1`

func TestNodeAndControllerPluginsCountApart(t *testing.T) {
	t.Parallel()
	w := open(t)
	controller, node := plugin("p-controller", controllerType), plugin("p-nodes", nodeType)
	w.jobs(controller, node)
	w.runs(controller, "n1")
	w.runs(node, "n1")
	w.check("nobody uses it", node, nil)
	w.claim(api.ClaimReady, true)
	w.check("node plugin under a mount", node, nil, user, "-force")
	w.check("controller, and nothing is known of it", controller, nil, user)
	w.controllerSays(true)
	w.check("controller of a mount that it attached", controller, nil, user)
	w.controllerSays(false)
	w.check("controller of a mount that nobody attached", controller, nil)
	w.check("node plugin", node, nil, user)

	w.controllerSays(true)
	w.claim(api.ClaimUnmounted, true)
	w.check("node plugin of what is attached only", node, nil)
	w.check("controller of what is attached", controller, nil, user)
	w.claim(api.ClaimWaiting, true)
	w.check("controller of who waits", controller, nil)
	w.put(func(tx *state.Txn) {
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n1", State: api.AttachmentUnpublishing})
	})
	w.check("controller", controller, nil, `external volume "x" attached to node n1`)
	w.check("node plugin", node, nil)
}

func TestPluginIsNeededOnTheNodeOfTheMount(t *testing.T) {
	t.Parallel()
	w := open(t)
	here, there := plugin("here", nodeType), plugin("there", monolith)
	w.jobs(here, there)
	w.claim(api.ClaimReleasing, false)
	w.runs(there, "n2")
	w.check("the other runs elsewhere", here, nil, user)
	w.runs(there, "n1")
	w.check("the other runs here", here, nil)
	stopped := *there
	stopped.Stop = true
	w.jobs(&stopped)
	w.check("the other is stopped", here, nil, user)
}

func TestPluginIsNotTakenAwayFromTheNodeOfAMountByConstraints(t *testing.T) {
	t.Parallel()
	w := open(t)
	old := plugin("driver", monolith)
	w.jobs(old)
	w.put(func(tx *state.Txn) {
		tx.PutNode(&api.Node{ID: "n1", Datacenter: "dc1", NodePool: "default", Status: api.NodeStatusReady, Attributes: map[string]string{"kernel.name": "linux"}})
	})
	w.claim(api.ClaimReady, false)
	const text = `job "driver" takes the CSI plugin "p" away from nodes where it is in use`
	for what, change := range map[string]func(*api.Job){
		"datacenter": func(j *api.Job) { j.Datacenters = []string{"dc2"} },
		"pool":       func(j *api.Job) { j.NodePool = "other" },
		"constraint": func(j *api.Job) {
			j.Constraints = []*api.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: "plan9"}}
		},
	} {
		next := plugin("driver", monolith)
		change(next)
		w.check(what, old, next, text, user, "-force")
		w.check(what+" of before", next, next)
		other := plugin("other", nodeType)
		w.jobs(other)
		w.runs(other, "n1")
		w.check(what+", and another job has it there", old, next)
		stopped := *other
		stopped.Stop = true
		w.jobs(&stopped)
	}
	w.claim(api.ClaimUnmounted, false)
	next := plugin("driver", monolith)
	next.Datacenters = []string{"dc2"}
	w.check("nothing is mounted", old, next)
}

func TestPluginThatChangesItsTypeUnderAMountIsRefused(t *testing.T) {
	t.Parallel()
	w := open(t)
	old := plugin("driver", nodeType)
	w.jobs(old)
	w.controllerSays(false)
	w.check("nobody uses it", old, plugin("driver", monolith))
	w.claim(api.ClaimReady, false)
	const text = `job "driver" changes the type of the CSI plugin "p" from node to `
	w.check("node to controller", old, plugin("driver", controllerType), text+"controller", user)
	w.check("node to monolith", old, plugin("driver", monolith), text+"monolith", user)
	w.check("monolith to both apart", plugin("driver", monolith), plugin("driver", controllerType, nodeType), "from monolith to controller and node", user)
	w.check("a controller beside it", old, plugin("driver", controllerType, nodeType))
	w.check("the same", old, plugin("driver", nodeType))

	w.controllerSays(true)
	w.claim(api.ClaimUnmounted, true)
	w.check("controller to monolith while attached", plugin("driver", controllerType), plugin("driver", monolith))
	w.check("monolith to controller while attached", plugin("driver", monolith), plugin("driver", controllerType))
	w.check("monolith to node while attached", plugin("driver", monolith), old, text[:len(text)-len("node to ")]+"monolith to node", user)
}

func TestControllerIsNeededForOperationsUnderWay(t *testing.T) {
	t.Parallel()
	w := open(t)
	controller, node := plugin("p-controller", controllerType), plugin("p-nodes", nodeType)
	w.jobs(controller, node)
	w.controllerSays(false)
	w.put(func(tx *state.Txn) {
		tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{Namespace: "default", ID: "new", PluginID: "p"}, Provision: api.VolumeProvision{State: api.VolumeCreating}})
		tx.PutSnapshotIntent(&api.SnapshotIntent{PluginID: "p", Name: "monday"})
		tx.PutSnapshotIntent(&api.SnapshotIntent{PluginID: "p", Name: "s-1", Delete: true})
	})
	w.check("controller", controller, nil, `volume "new", which is creating`, `snapshot "monday", which is being made`, `snapshot "s-1", which is being deleted`)
	w.check("node plugin", node, nil)
}

func TestUsersOfAPluginAreNamedUpToABound(t *testing.T) {
	t.Parallel()
	w := open(t)
	j := plugin("driver", monolith)
	w.jobs(j)
	w.put(func(tx *state.Txn) {
		for _, id := range strings.Fields("a b c d e f g h i j k l") {
			tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: id, AllocID: id, NodeID: "n1", PluginID: "p", ExternalID: id, State: api.ClaimReady})
		}
	})
	w.check("twelve users", j, nil, "and 2 more")
}

// A system job with count 0 runs nowhere: setting it takes the plugin away like a stop.
func TestSystemPluginWithCountZeroIsOneThatGoesAway(t *testing.T) {
	t.Parallel()
	w := open(t)
	node := plugin("p-nodes", nodeType)
	w.jobs(node)
	w.runs(node, "n1")
	w.claim(api.ClaimReady, true)
	none := plugin("p-nodes", nodeType)
	none.TaskGroups[0].Count = 0
	w.check("node plugin with count 0", node, none, user, "-force")
}
