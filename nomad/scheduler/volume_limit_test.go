package scheduler_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
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
		n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "old", PluginID: v.PluginID, ExternalID: v.RemoteID()}}
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

// An update to another volume of the plugin, on a node that takes no more of them: what leaves is what it waits for.
func TestUpdateToAnotherVolumeLeavesANodeThatIsFull(t *testing.T) {
	multi := func(r *api.VolumeRequest) { r.AccessMode = string(api.AccessMultiNodeMultiWriter) }
	perAlloc := func(r *api.VolumeRequest) { multi(r); r.PerAlloc = true }
	one := updated(api.UpdateStrategy{MaxParallel: 1})
	for name, x := range map[string]struct {
		kind           string
		count          int
		limit          int64
		how            func(*api.VolumeRequest)
		change         func(*api.Job)
		first, another []string
		stopped        int
	}{
		"one":               {api.JobTypeService, 1, 1, multi, one, []string{"v"}, []string{"w"}, 1},
		"at once":           {api.JobTypeService, 2, 1, multi, func(*api.Job) {}, []string{"v"}, []string{"w"}, 2},
		"shared":            {api.JobTypeService, 2, 1, multi, one, []string{"v"}, []string{"w"}, 2},
		"each has its own":  {api.JobTypeService, 2, 2, perAlloc, one, []string{"v[0]", "v[1]"}, []string{"w[0]", "w[1]"}, 1},
		"batch":             {api.JobTypeBatch, 1, 1, multi, func(*api.Job) {}, []string{"v"}, []string{"w"}, 1},
		"system":            {api.JobTypeSystem, 1, 1, multi, one, []string{"v"}, []string{"w"}, 1},
		"there is capacity": {api.JobTypeService, 2, 2, multi, one, []string{"v"}, []string{"w"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.node("n1", plugin(x.limit, nil))
			for _, v := range append(x.first, x.another...) {
				c.volume(v, api.AccessMultiNodeMultiWriter)
			}
			// settle has what a plan stops give its volumes back, and what it places have them.
			settle := func(o *scheduler.Output, volumes []string) {
				for i, a := range placed(o) {
					c.write(func(tx *state.Txn) {
						id := volumes[min(i, len(volumes)-1)]
						if len(volumes) > 1 {
							id = volumes[int(a.Name[len(a.Name)-2]-'0')]
						}
						tx.PutClaim(&api.VolumeClaim{
							Namespace: "default", VolumeID: id, AllocID: a.ID, NodeID: a.NodeID, JobID: a.JobID, TaskGroup: a.TaskGroup,
							PluginID: "p", ExternalID: "ext-" + id, Mode: api.ClaimWrite, State: api.ClaimReady,
							AccessMode: api.AccessMultiNodeMultiWriter, AttachmentMode: api.AttachmentFileSystem,
						})
					})
				}
				for _, a := range stopped(o) {
					c.write(func(tx *state.Txn) {
						for held := range tx.ClaimsByAlloc(a.ID) {
							tx.DeleteClaim(held.Namespace, held.VolumeID, held.AllocID, held.Use)
						}
					})
				}
				c.decide("j", true)
			}
			j := job("j", x.kind, x.count, x.change, user("old"), withVolume("v", x.how))
			c.register(j)
			settle(c.run(j), x.first)
			settle(c.run(j), x.first)
			if len(c.live("j")) != x.count {
				t.Fatalf("%d allocations", len(c.live("j")))
			}
			next := job("j", x.kind, x.count, x.change, user("new"), withVolume("w", x.how))
			c.register(next)
			o := c.run(next)
			if len(stopped(o)) != x.stopped || len(placed(o)) == 0 && !refusedFor(o, "maximum number of volumes") {
				t.Fatalf("stopped %d, placed %d, failed %+v", len(stopped(o)), len(placed(o)), o.Failed["g"])
			}
			if len(placed(o)) == 0 && !slices.Contains(o.Missing, "csi-plugin:p") {
				t.Errorf("waits for %v", o.Missing)
			}
			for range 2 * x.count {
				settle(o, x.another)
				o = c.run(next)
			}
			settle(o, x.another)
			if got, want := c.users("j"), fmt.Sprintf("map[new:%d]", x.count); got != want {
				t.Errorf("in the end %s, want %s, failed %+v", got, want, o.Failed["g"])
			}
		})
	}
}

// Who would not have a place there either when the volumes have left is not stopped.
func TestUpdateToAnotherVolumeStopsNobodyForNothing(t *testing.T) {
	multi := func(r *api.VolumeRequest) { r.AccessMode = string(api.AccessMultiNodeMultiWriter) }
	for name, change := range map[string]func(*api.Job){
		"capacity": func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = 9000 },
		"volume":   withVolume("absent", multi),
		"limit":    withVolume("x", multi), // two where one can be
	} {
		c := newCluster(t)
		c.node("n1", plugin(1, nil))
		for _, v := range []string{"v", "w", "x"} {
			c.volume(v, api.AccessMultiNodeMultiWriter)
		}
		j := job("j", api.JobTypeService, 1, withVolume("v", multi))
		c.register(j)
		c.claim(c.run(j), "v")
		c.setRunning("j")
		next := job("j", api.JobTypeService, 1, user("new"), withVolume("w", multi), change)
		c.register(next)
		if o := c.run(next); len(stopped(o)) != 0 || len(placed(o)) != 0 {
			t.Errorf("%s: stopped %d, placed %d", name, len(stopped(o)), len(placed(o)))
		}
	}
}
