package plan

import (
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// verifier checks plans one after the other; each sees what those before it do.
type verifier struct {
	edit *fleet.Edit
	tx   *state.Txn
}

func newVerifier(f *fleet.Fleet, tx *state.Txn) *verifier {
	return &verifier{f.Edit(), tx}
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
	stopping := map[string]bool{}
	for _, node := range sortedNodes(p) {
		for _, a := range slices.Concat(p.NodeUpdate[node], p.NodePreemptions[node]) {
			stopping[a.ID] = true
			v.remove(a)
		}
	}
	for _, node := range sortedNodes(p) {
		if why := v.fill(p, node, stopping); why != "" {
			c.refuse(node, why)
		}
	}
	v.keepPredecessors(p, c)
	if p.AllAtOnce && len(c.refused) > 0 {
		v.dropAll(c)
	}
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

// fill adds the plan's placements on one node, or answers why they cannot be there.
func (v *verifier) fill(p *api.Plan, node string, stopping map[string]bool) string {
	var added []string
	i := v.edit.Find(node)
	undo := func(why string) string {
		for _, id := range added {
			v.edit.Remove(i, id)
		}
		return why
	}
	for _, a := range p.NodeAllocation[node] {
		if !isNew(a) {
			continue
		}
		if why := v.usable(i, node); why != "" {
			return undo(why)
		}
		with := withJob(p, a)
		if why := v.fits(i, with); why != "" {
			return undo(why)
		}
		if err := ledger.Check(v.tx, with, stopping); err != nil {
			return undo(err.Error())
		}
		v.edit.Add(i, a.ID, fleet.LoadOfAlloc(with))
		added = append(added, a.ID)
	}
	return ""
}

func (v *verifier) usable(i int, node string) string {
	n := v.tx.Node(node)
	switch {
	case n == nil || i < 0:
		return "node does not exist"
	case n.Status != api.NodeStatusReady:
		return "node is not ready"
	case !feasible.Available(n):
		return "node is not eligible"
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

func (v *verifier) fits(i int, a *api.Allocation) string {
	group := a.Group()
	return v.edit.Row(i).Refuses(fleet.LoadOf(group, a.AllocatedResources), func(p fleet.HostPort) bool { return shared(group, p.Port) })
}

// shared reports whether the group asks for the port whoever else has it.
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
	i := v.edit.Find(old.NodeID)
	if i < 0 || c.refused[old.NodeID] != "" {
		return
	}
	if slices.ContainsFunc(p.NodeAllocation[old.NodeID], isNew) {
		for _, a := range p.NodeAllocation[old.NodeID] {
			if isNew(a) {
				v.edit.Remove(i, a.ID)
			}
		}
		c.refuse(old.NodeID, "a predecessor on the node keeps running")
	}
}

// dropAll leaves out the whole plan.
func (v *verifier) dropAll(c *checked) {
	for node, list := range c.plan.NodeAllocation {
		for _, a := range list {
			if i := v.edit.Find(node); i >= 0 && isNew(a) {
				v.edit.Remove(i, a.ID)
			}
		}
	}
	for _, list := range c.plan.NodeUpdate {
		for _, a := range list {
			v.restore(a.ID)
		}
	}
	c.plan.NodeAllocation, c.plan.NodeUpdate, c.plan.NodePreemptions = nil, nil, nil
}
