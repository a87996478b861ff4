package plan

import (
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/hostvolumes/hostview"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// verifier checks plans one after the other; each sees what those before it do.
type verifier struct {
	edit *fleet.Edit
	tx   *state.Txn
	// with is the placement being checked, with its job.
	with api.Allocation
	// taken are the claims of the plan being checked.
	taken []*api.VolumeClaim
	// books are the quotas of the checked plans, by name; quota is that of the plan being checked, or nil. stopped are
	// the allocations under this quota that the plan stops: only the plan itself may use what they leave.
	books   map[string]*quota.Book
	quota   *quota.Book
	stopped map[string]*api.Allocation
}

func newVerifier(f *fleet.Fleet, tx *state.Txn) *verifier {
	return &verifier{edit: f.Edit(), tx: tx}
}

// checked is a plan of which the parts for some nodes were left out.
type checked struct {
	plan    *api.Plan
	refused map[string]string
}

func (c *checked) result() *api.PlanResult {
	return &api.PlanResult{
		NodeUpdate: c.plan.NodeUpdate, NodeAllocation: c.plan.NodeAllocation, NodePreemptions: c.plan.NodePreemptions,
		RejectedNodes: slices.Sorted(maps.Keys(c.refused)), Reasons: c.refused,
	}
}

// check verifies the plan and carries out in the overlay what is left of it.
func (v *verifier) check(p *api.Plan) *checked {
	left := *p
	left.NodeUpdate, left.NodeAllocation = maps.Clone(p.NodeUpdate), maps.Clone(p.NodeAllocation)
	left.NodePreemptions = maps.Clone(p.NodePreemptions)
	c := &checked{plan: &left, refused: map[string]string{}}
	v.taken = nil
	v.openQuota(p)
	stopping := map[string]bool{}
	for _, stops := range []map[string][]*api.Allocation{p.NodeUpdate, p.NodePreemptions} {
		for _, list := range stops {
			for _, a := range list {
				stopping[a.ID] = true
				v.remove(a)
				v.stopCounting(a)
			}
		}
	}
	for _, node := range sortedNodes(p) {
		if why := v.fill(p, node, stopping); why != "" {
			c.refuse(node, why)
		}
	}
	v.keepPredecessors(p, c)
	if why := v.overQuota(p, c); why != "" {
		c.refused[""] = why
	}
	if (p.AllAtOnce || c.refused[""] != "") && len(c.refused) > 0 {
		v.dropAll(p, c)
	}
	v.closeQuota(c)
	return c
}

func (c *checked) refuse(node, why string) {
	c.refused[node] = why
	kept := slices.DeleteFunc(slices.Clone(c.plan.NodeAllocation[node]), isNew)
	if len(kept) == 0 {
		delete(c.plan.NodeAllocation, node)
		return
	}
	c.plan.NodeAllocation[node] = kept
}

func (v *verifier) remove(a *api.Allocation) {
	if i := v.edit.Find(a.NodeID); i >= 0 {
		v.edit.Remove(i, a.ID)
	}
}

// restore counts an allocation again that is not stopped after all.
func (v *verifier) restore(id string) {
	if a := v.tx.Alloc(id); a != nil {
		v.edit.PutAlloc(a)
	}
}

// fill adds the plan's placements on one node, or returns why they cannot be there.
func (v *verifier) fill(p *api.Plan, node string, stopping map[string]bool) string {
	list := p.NodeAllocation[node]
	if !slices.ContainsFunc(list, isNew) {
		return ""
	}
	i := v.edit.Find(node)
	if why := v.usable(p, i, node); why != "" {
		return why
	}
	before := len(v.taken)
	for n, a := range list {
		if !isNew(a) {
			continue
		}
		if why := v.add(p, i, a, stopping); why != "" {
			for _, added := range list[:n] {
				if isNew(added) {
					v.edit.Remove(i, added.ID)
					v.countPlaced(p, added, -1)
				}
			}
			v.taken = v.taken[:before]
			return why
		}
	}
	return ""
}

// add adds one placement on a node, or returns why it cannot be there.
func (v *verifier) add(p *api.Plan, i int, a *api.Allocation, stopping map[string]bool) string {
	v.with = *a
	if a.Job == nil {
		v.with.Job = p.Job
	}
	if why := hostview.Missing(v.tx, v.edit.Row(i).Node, &v.with); why != "" {
		return why
	}
	load := fleet.LoadOfAlloc(&v.with)
	if why := v.edit.Row(i).Refuses(load, func(p fleet.HostPort) bool { return shared(v.with.Group(), p.Port) }); why != "" {
		return why
	}
	claims, err := ledger.Beside(v.tx, &v.with, stopping, v.taken)
	if err != nil {
		return err.Error()
	}
	if v.quota != nil {
		if why := v.quota.Refusal(quota.PoolOf(v.with.Job), quota.AskOf(v.with.Group())); why != "" {
			return quota.LimitHit + why
		}
		v.countPlaced(p, a, 1)
	}
	v.taken = append(v.taken, claims...)
	v.edit.Add(i, a.ID, load)
	return ""
}

const notEligible = "node is not eligible"

// usable is why the plan's placements cannot come to the node at all, or "".
func (v *verifier) usable(p *api.Plan, i int, node string) string {
	n := v.tx.Node(node)
	switch {
	case n == nil || i < 0:
		return "node does not exist"
	case n.Status != api.NodeStatusReady:
		return "node is not ready"
	case feasible.Available(n):
		return ""
	}
	for _, a := range p.NodeAllocation[node] {
		if with := withJob(p, a); isNew(a) && !feasible.AcceptsPlugin(v.tx, n, with.Job, with.Group()) {
			return notEligible
		}
	}
	return ""
}

// withJob is a placed allocation with its job: the plan's, unless it is of an older version.
func withJob(p *api.Plan, a *api.Allocation) *api.Allocation {
	if a.Job != nil {
		return a
	}
	with := *a
	with.Job = p.Job
	return &with
}

// shared reports whether the group accepts a port that others have.
func shared(g *api.TaskGroup, port int) bool {
	if g == nil {
		return false
	}
	for _, n := range g.Networks {
		for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
			if p.Value == port && p.IgnoreCollision {
				return true
			}
		}
	}
	return false
}

// keepPredecessors leaves out the stops of allocations whose successors were refused. What they keep
// using may refuse others in turn.
func (v *verifier) keepPredecessors(p *api.Plan, c *checked) {
	done := map[string]bool{}
	for len(done) < len(c.refused) {
		for _, node := range slices.Sorted(maps.Keys(c.refused)) {
			if done[node] {
				continue
			}
			done[node] = true
			for _, a := range p.NodeAllocation[node] {
				if isNew(a) && a.PreviousAllocation != "" {
					v.keep(p, c, a.PreviousAllocation)
				}
			}
		}
	}
}

// keep leaves out the stop of one allocation, unless it is lost or must move anyway.
func (v *verifier) keep(p *api.Plan, c *checked, id string) {
	old := v.tx.Alloc(id)
	if old == nil || old.DesiredTransition.Migrate {
		return
	}
	if n := v.tx.Node(old.NodeID); n != nil && reconcile.VolumeLost(old, n) != "" {
		return
	}
	stops := c.plan.NodeUpdate[old.NodeID]
	at := slices.IndexFunc(stops, func(a *api.Allocation) bool { return a.ID == id && a.ClientStatus != api.AllocClientStatusLost })
	if at < 0 {
		return
	}
	if len(stops) == 1 {
		delete(c.plan.NodeUpdate, old.NodeID)
	} else {
		c.plan.NodeUpdate[old.NodeID] = slices.Delete(slices.Clone(stops), at, at+1)
	}
	v.restore(id)
	v.resumeCounting(id)
	i := v.edit.Find(old.NodeID)
	if i < 0 || c.refused[old.NodeID] != "" {
		return
	}
	if slices.ContainsFunc(p.NodeAllocation[old.NodeID], isNew) {
		for _, a := range p.NodeAllocation[old.NodeID] {
			if isNew(a) {
				v.edit.Remove(i, a.ID)
				v.countPlaced(p, a, -1)
			}
		}
		c.refuse(old.NodeID, "a predecessor on the node keeps running")
	}
}

// dropAll leaves out the whole plan.
func (v *verifier) dropAll(p *api.Plan, c *checked) {
	for node, list := range c.plan.NodeAllocation {
		for _, a := range list {
			if i := v.edit.Find(node); i >= 0 && isNew(a) {
				v.edit.Remove(i, a.ID)
				v.countPlaced(p, a, -1)
			}
		}
	}
	for _, stops := range []map[string][]*api.Allocation{c.plan.NodeUpdate, c.plan.NodePreemptions} {
		for _, list := range stops {
			for _, a := range list {
				v.restore(a.ID)
				v.resumeCounting(a.ID)
			}
		}
	}
	c.plan.NodeAllocation, c.plan.NodeUpdate, c.plan.NodePreemptions = nil, nil, nil
}
