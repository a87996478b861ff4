package nodes_test

import (
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// A plugin belongs to a node as long as its volumes do, and its job is looked at when the node is back, though the node is
// none of the job's any more.
func TestNodeThatNeedsAPluginHasItsJobEvaluated(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		job   string
		claim api.ClaimState
		kind  string
		want  []string
	}{
		"mounted":             {api.JobTypeSystem, api.ClaimReleasing, api.CSIPluginTypeNode, []string{"driver node-update"}},
		"a service":           {api.JobTypeService, api.ClaimReleasing, api.CSIPluginTypeNode, []string{"driver node-update"}},
		"waits":               {api.JobTypeService, api.ClaimWaiting, api.CSIPluginTypeNode, []string{"driver node-update"}},
		"work that ends":      {api.JobTypeBatch, api.ClaimReleasing, api.CSIPluginTypeNode, nil},
		"unmounted":           {api.JobTypeSystem, api.ClaimUnmounted, api.CSIPluginTypeNode, nil},
		"only the controller": {api.JobTypeSystem, api.ClaimReleasing, api.CSIPluginTypeController, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, nodes.Heartbeat{})
			r.place(x.job, "driver", "elsewhere", func(g *api.TaskGroup) {
				g.Tasks[0].CSIPluginConfig = &api.CSIPluginConfig{ID: "p", Type: x.kind}
			})
			r.write(func(tx *state.Txn) {
				tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "n1", PluginID: "p", ExternalID: "x", State: x.claim})
			})
			moved := node("n1")
			moved.Datacenter = "another"
			r.register(moved)
			if got := r.jobsOf(r.beat("n1", api.NodeStatusReady).EvalIDs); !slices.Equal(got, x.want) {
				t.Errorf("evaluations of a node that is ready: %v", got)
			}
		})
	}
}

// A node may tell of mounts that nobody knew.
func TestNodeThatBringsMountsHasTheJobOfTheirPluginEvaluated(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.place(api.JobTypeSystem, "driver", "elsewhere", func(g *api.TaskGroup) {
		g.Tasks[0].CSIPluginConfig = &api.CSIPluginConfig{ID: "p", Type: api.CSIPluginTypeNode}
	})
	n := node("n1")
	n.Datacenter = "another"
	r.register(n)
	r.beat("n1", api.NodeStatusReady)
	brings := node("n1")
	brings.Datacenter, brings.Status = "another", api.NodeStatusReady
	brings.StaleMounts = []*api.StaleMount{{PluginID: "p", ExternalID: "x", VolumeID: "v", Namespace: "default", AllocID: "a"}}
	if got := r.jobsOf(r.register(brings).EvalIDs); !slices.Equal(got, []string{"driver node-update"}) {
		t.Errorf("evaluations %v", got)
	}
}

func (r *fixture) write(do func(*state.Txn)) {
	tx := r.state.Write(r.state.Read().Index()+1, time.Now())
	do(tx)
	tx.Commit()
}
