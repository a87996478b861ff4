package scheduler_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func runsPlugin(id string) func(*api.Job) {
	return func(j *api.Job) {
		j.TaskGroups[0].Tasks[0].CSIPluginConfig = &api.CSIPluginConfig{ID: id, Type: api.CSIPluginTypeMonolith}
	}
}

// Who evicts a plugin takes its place for good: what it had mounted could not leave.
func TestPluginOfMountedVolumesIsNotEvicted(t *testing.T) {
	for name, x := range map[string]struct {
		claim api.ClaimState
		kind  string
		want  []string
	}{
		"mounted":             {api.ClaimReady, api.CSIPluginTypeNode, nil},
		"unmounted":           {api.ClaimUnmounted, api.CSIPluginTypeNode, []string{"driver.g[0]"}},
		"only the controller": {api.ClaimReady, api.CSIPluginTypeController, []string{"driver.g[0]"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t).preempting()
			c.nodes(1)
			c.runs(sized("driver", 20, 3000, 1, runsPlugin("p"), func(j *api.Job) { j.TaskGroups[0].Tasks[0].CSIPluginConfig.Type = x.kind }))
			c.write(func(tx *state.Txn) {
				tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "n0", PluginID: "p", ExternalID: "x", State: x.claim})
			})
			high := sized("high", 90, 3000, 1)
			c.register(high)
			o := c.run(high)
			if got := evicted(o); !slices.Equal(got, x.want) || len(placed(o)) != len(x.want) {
				t.Errorf("evicted %q, placed %d", got, len(placed(o)))
			}
		})
	}
}

func draining(n *api.Node) {
	n.DrainStrategy, n.SchedulingEligibility = &api.DrainStrategy{}, api.NodeSchedulingIneligible
}

func ineligible(n *api.Node) { n.SchedulingEligibility = api.NodeSchedulingIneligible }

// A node that takes nothing new gets the plugin that can unmount what it has, and nothing else: without it volumes stay
// there for ever.
func TestPluginComesToANodeThatNeedsItForItsVolumes(t *testing.T) {
	claimed := func(at api.ClaimState) func(*state.Txn) {
		return func(tx *state.Txn) {
			tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "n0", PluginID: "p", ExternalID: "x", State: at})
		}
	}
	put := func(tx *state.Txn) {
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n0", State: api.AttachmentUnpublishing})
	}
	for name, c := range map[string]struct {
		node   func(*api.Node)
		has    func(*state.Txn)
		change func(*api.Job)
		comes  bool
	}{
		"draining and mounted":   {draining, claimed(api.ClaimReleasing), nil, true},
		"ineligible and mounted": {ineligible, claimed(api.ClaimReady), nil, true},
		"attached":               {draining, put, nil, true},
		"given up":               {func(n *api.Node) { draining(n); n.StaleMounts = []*api.StaleMount{{PluginID: "p"}} }, nil, nil, true},
		"nothing there":          {draining, nil, nil, false},
		"unmounted":              {draining, claimed(api.ClaimUnmounted), nil, false},
		"not yet its turn":       {draining, claimed(api.ClaimWaiting), nil, true},
		"another plugin":         {draining, claimed(api.ClaimReady), runsPlugin("q"), false},
		"no plugin":              {draining, claimed(api.ClaimReady), func(j *api.Job) { j.TaskGroups[0].Tasks[0].CSIPluginConfig = nil }, false},
		"down":                   {func(n *api.Node) { draining(n); n.Status = api.NodeStatusDown }, claimed(api.ClaimReleasing), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newCluster(t)
			n.node("n0", c.node)
			if c.has != nil {
				n.write(c.has)
			}
			changes := []func(*api.Job){runsPlugin("p")}
			if c.change != nil {
				changes = append(changes, c.change)
			}
			j := job("s", api.JobTypeSystem, 1, changes...)
			n.register(j)
			if o := n.run(j); (len(placed(o)) == 1) != c.comes {
				t.Fatalf("placed %d", len(placed(o)))
			}
			if !c.comes {
				return
			}
			n.setRunning("s")
			if o := n.run(j); !o.Empty() {
				t.Errorf("placed %d, stopped %d once more", len(placed(o)), len(stopped(o)))
			}
			next := job("s", api.JobTypeSystem, 1, append(changes, func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"a": "b"} })...)
			n.register(next)
			if o := n.run(next); len(stopped(o)) != 1 || len(placed(o)) != 1 {
				t.Errorf("an update of the plugin stopped %d and placed %d", len(stopped(o)), len(placed(o)))
			}
		})
	}
}

// A node may come to another datacenter or pool, or lose what the job's rules ask for: the plugin there stays as it is
// until its volumes have left.
func TestPluginStaysOnANodeThatLeavesItsJobWhileItHasVolumes(t *testing.T) {
	for name, leave := range map[string]func(*api.Node){
		"datacenter": func(n *api.Node) { n.Datacenter = "dc2" },
		"pool":       func(n *api.Node) { n.NodePool = "other" },
		"rules":      func(n *api.Node) { n.Attributes = nil },
	} {
		t.Run(name, func(t *testing.T) {
			n := newCluster(t)
			n.node("n0", func(n *api.Node) { n.Datacenter, n.Attributes = "dc1", map[string]string{"rack": "r1"} })
			rules := func(j *api.Job) {
				j.Datacenters = []string{"dc1"}
				j.Constraints = []*api.Constraint{{LTarget: "${attr.rack}", Operand: "=", RTarget: "r1"}}
			}
			j := job("s", api.JobTypeSystem, 1, runsPlugin("p"), rules)
			n.register(j)
			if o := n.run(j); len(placed(o)) != 1 {
				t.Fatalf("placed %d", len(placed(o)))
			}
			n.setRunning("s")
			n.write(func(tx *state.Txn) {
				now := *tx.Node("n0")
				leave(&now)
				tx.PutNode(&now)
				tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "n0", PluginID: "p", ExternalID: "x", State: api.ClaimReady})
			})
			if o := n.run(j); !o.Empty() {
				t.Errorf("placed %d, stopped %d while a volume is mounted", len(placed(o)), len(stopped(o)))
			}
			next := job("s", api.JobTypeSystem, 1, runsPlugin("p"), rules, func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"a": "b"} })
			n.register(next)
			if o := n.run(next); len(placed(o))+len(stopped(o)) != 0 {
				t.Errorf("an update placed %d, stopped %d while a volume is mounted", len(placed(o)), len(stopped(o)))
			}
			n.write(func(tx *state.Txn) { tx.DeleteClaim("default", "v", "a", "") })
			if o := n.run(next); len(placed(o)) != 0 || len(stopped(o)) != 1 {
				t.Errorf("placed %d, stopped %d when nothing is mounted any more", len(placed(o)), len(stopped(o)))
			}
		})
	}
}
