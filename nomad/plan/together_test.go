package plan_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// counted counts the entries that were proposed and those that failed.
type counted struct {
	fsm.Proposer
	all, failed atomic.Int32
}

func (c *counted) Propose(ctx context.Context, cmd fsm.Command) (fsm.Result, error) {
	c.all.Add(1)
	res, err := c.Proposer.Propose(ctx, cmd)
	if err != nil {
		c.failed.Add(1)
	}
	return res, err
}

// users is a job of two groups, g and h, that use a volume each.
func (w *world) users(g, h string) *api.Job {
	next := *w.user("1", g)
	second := *next.TaskGroups[0]
	second.Name, second.Volumes = "h", w.user("2", h).TaskGroups[0].Volumes
	next.TaskGroups = append(next.TaskGroups[:1:1], &second)
	w.put(func(tx *state.Txn) { tx.PutJob(&next) })
	return w.store.Read().Job("default", next.ID)
}

// takes lets n1 say how many volumes it takes; 0 is any number.
func (w *world) takes(volumes int64) {
	w.put(func(tx *state.Txn) {
		n := *tx.Node("n1")
		n.CSINodePlugins = map[string]*api.CSIInfo{"p": {PluginID: "p", Healthy: true, NodeInfo: &api.CSINodeInfo{ID: "n1", MaxVolumes: volumes}}}
		tx.PutNode(&n)
	})
}

// What the placements of one plan take together is judged together: on one node, on two, with the limit of the node.
func TestPlacementsOfOnePlanAreJudgedTogether(t *testing.T) {
	for _, c := range []struct {
		name, second, node, volume string
		limit                      int64
		placed                     string
	}{
		{"one volume on one node", "b", "n1", "v1", 0, ""},
		{"one volume on two nodes", "b", "n2", "v1", 0, "a"},
		{"more volumes than the node takes", "b", "n1", "v2", 1, ""},
		{"as many as it takes", "b", "n1", "v2", 2, "a b"},
		{"the other's node is full, not this one", "b", "n2", "v2", 1, "a b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := limited(t)
			w.takes(c.limit)
			j := w.users("v1", c.volume)
			b := alloc(j, "b", c.node, 10)
			b.TaskGroup = "h"
			out := w.submit(planOf(j, nil, alloc(j, "a", "n1", 10), b))
			var placed []string
			for _, id := range []string{"a", "b"} {
				if w.store.Read().Alloc(id) != nil {
					placed = append(placed, id)
				}
			}
			if got := strings.Join(placed, " "); got != c.placed || out.Whole != (c.placed == "a b") {
				t.Errorf("placed %q of %q; %+v", got, c.placed, out.PlanResult)
			}
			if why := out.Reasons[""]; why != "" {
				t.Errorf("the plan was refused as a whole: %s", why)
			}
		})
	}
}

// A plan whose placements stop fitting together while its entry is on its way is refused alone: the others of the
// entry are committed with it, at once.
func TestPlanThatNoLongerFitsTogetherLeavesItsEntryWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := limited(t)
		w.takes(0)
		j := w.users("v1", "v2")
		innocent := w.job("innocent", false)

		tally := &counted{Proposer: w.raft}
		log := &slow{tally, make(chan int), make(chan error)}
		fleets := plan.NewFleetCache(w.store)
		w.applier = plan.NewApplier(plan.Config{State: w.store, Raft: log, FleetCache: fleets, Log: hclog.NewNullLogger()})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = fleets.Run(ctx) }()
		go func() { _ = w.applier.Run(ctx) }()

		first := w.later(&plan.Submission{Plan: planOf(innocent, nil, alloc(innocent, "0", "n2", 10))})
		<-log.entries
		b := alloc(j, "b", "n1", 10)
		b.TaskGroup = "h"
		bad := w.later(&plan.Submission{Plan: planOf(j, nil, alloc(j, "a", "n1", 10), b)})
		good := w.later(&plan.Submission{Plan: planOf(innocent, nil, alloc(innocent, "c", "n2", 10))})
		synctest.Wait() // both wait
		log.verdict <- nil
		<-first
		if n := <-log.entries; n != 2 {
			t.Fatalf("%d plans in the entry", n)
		}
		w.takes(1)
		log.verdict <- nil
		go func() { // an entry that fails is followed by one for each plan
			for {
				select {
				case <-log.entries:
					log.verdict <- nil
				case <-ctx.Done():
					return
				}
			}
		}()
		if out := <-good; out == nil || !out.Whole {
			t.Errorf("the other plan: %+v", out)
		}
		if out := <-bad; out == nil || out.Whole || !strings.Contains(out.Reasons["n1"], "maximum number of volumes") {
			t.Errorf("the plan that no longer fits: %+v", out)
		}
		if tx := w.store.Read(); tx.Alloc("a") != nil || tx.Alloc("b") != nil || tx.Alloc("c") == nil {
			t.Error("half of a plan was committed, or another one was not")
		}
		if all, failed := tally.all.Load(), tally.failed.Load(); all != 2 || failed != 0 {
			t.Errorf("%d entries, %d of them failed", all, failed)
		}
		cancel()
		synctest.Wait()
	})
}
