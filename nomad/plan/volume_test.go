package plan_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// user is a job that uses a volume.
func (w *world) user(id, volume string) *api.Job {
	next := *w.job("j"+id, false)
	g := *next.TaskGroups[0]
	g.Volumes = map[string]*api.VolumeRequest{"v": {Name: "v", Type: api.VolumeTypeCSI, Source: volume, AccessMode: "single-node-writer", AttachmentMode: "file-system"}}
	next.TaskGroups = []*api.TaskGroup{&g}
	w.put(func(tx *state.Txn) { tx.PutJob(&next) })
	return w.store.Read().Job("default", next.ID)
}

// limited is a world in which n1 takes one volume of the plugin, and there are two.
func limited(t *testing.T) *world {
	w := newWorld(t)
	w.put(func(tx *state.Txn) {
		n := *tx.Node("n1")
		n.CSINodePlugins = map[string]*api.CSIInfo{"p": {PluginID: "p", Healthy: true, NodeInfo: &api.CSINodeInfo{ID: "n1", MaxVolumes: 1}}}
		tx.PutNode(&n)
		for _, id := range []string{"v1", "v2"} {
			v := *tx.Volume("default", "v")
			v.ID, v.Provision.ExternalID = id, "x-"+id
			tx.PutVolume(&v)
		}
	})
	return w
}

func (w *world) claimed(node string) (volumes []string) {
	for c := range w.store.Read().ClaimsByNode(node) {
		volumes = append(volumes, c.VolumeID)
	}
	return volumes
}

func TestPlansOfTwoWorkersStayBelowTheVolumeLimit(t *testing.T) {
	w := limited(t)
	var outs [2]*plan.Outcome
	var all sync.WaitGroup
	for i, id := range []string{"v1", "v2"} {
		j := w.user(id, id)
		p := planOf(j, nil, alloc(j, "a-"+id, "n1", 10))
		all.Go(func() { outs[i] = w.submit(p) })
	}
	all.Wait()
	if got := w.claimed("n1"); len(got) != 1 || outs[0].Whole == outs[1].Whole {
		t.Errorf("n1 has %v; whole are %v and %v", got, outs[0].Whole, outs[1].Whole)
	}
	for _, out := range outs {
		if !out.Whole && !strings.Contains(out.Reasons["n1"], "maximum number of volumes") {
			t.Errorf("refused with %q", out.Reasons["n1"])
		}
	}
}

func TestPluginThatBecameUnhealthyIsNotPlacedOn(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", true)
	w.put(func(tx *state.Txn) {
		n := *tx.Node("n1")
		n.CSINodePlugins = map[string]*api.CSIInfo{"p": {PluginID: "p", NodeInfo: &api.CSINodeInfo{ID: "n1"}}}
		tx.PutNode(&n)
	})
	if out := w.submit(planOf(j, nil, alloc(j, "a", "n1", 10))); out.Whole || !strings.Contains(out.Reasons["n1"], "unhealthy") {
		t.Errorf("placed: %+v", out.PlanResult)
	}
}
