package scheduler

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// boundToVolume reports whether the allocation shares a single-node volume and its node accepts no allocation of the
// group's current version, whatever its capacity.
func (r *run) boundToVolume(a *api.Allocation) bool {
	n, g := r.node(a.NodeID), r.job.Group(a.TaskGroup)
	if n == nil || !g.OnOneNode() || !a.Group().OnOneNode() {
		return false
	}
	return !feasible.AcceptsGroup(r.in.View, n, r.job, g) || !r.canStay(a)
}

// replacedTogether returns the allocations of all groups that must release their shared volumes together.
func replacedTogether(groups []string, results map[string]reconcile.Result) (all []*api.Allocation) {
	for _, name := range groups {
		for i := range results[name].Place {
			if pl := &results[name].Place[i]; pl.Together {
				all = append(all, pl.Previous)
			}
		}
	}
	return all
}

// vacateOthers frees the resources of the allocations on the node of a that release their volumes together with it. It
// returns those that the plan did not stop already.
func (p *placer) vacateOthers(a *api.Allocation) (others []*api.Allocation) {
	for _, o := range p.run.leavingTogether {
		if o.NodeID != a.NodeID || p.run.gone[o.ID] {
			continue
		}
		others = append(others, o)
		if o.TaskGroup == a.TaskGroup {
			p.vacate(o)
			continue
		}
		p.run.vacate(o)
		p.touch(p.run.edit.Find(o.NodeID))
	}
	return others
}

// restoreOther undoes vacateOthers for one allocation.
func (p *placer) restoreOther(o *api.Allocation) {
	if o.TaskGroup == p.group.Name {
		p.unvacate(o)
		return
	}
	p.run.unvacate(o)
	p.touch(p.run.edit.Find(o.NodeID))
}

// placeAfterOutdated places the successor of the vacated allocation prev on the node of prev when only volumes of
// outdated allocations prevent it. It returns the allocations to stop with prev, whether they and prev are to be stopped,
// and whether the successor was placed: on a node at its volume limit it is placed after their volumes are detached.
func (p *placer) placeAfterOutdated(a, prev *api.Allocation) (others []*api.Allocation, stop, found bool) {
	i := p.run.edit.Find(prev.NodeID)
	if !p.hasVolumes || i < 0 || !p.ranks[i].ok() || p.run.node(prev.NodeID) == nil {
		return nil, false, false
	}
	if reason, _ := p.refusal(p.run.edit.Row(i)); reason != "" {
		return nil, false, false
	}
	if p.fitsLater(a, i) {
		return nil, true, false
	}
	for _, o := range p.run.outdated[p.group.Name] {
		if o.NodeID == prev.NodeID && !p.run.gone[o.ID] {
			p.vacate(o)
			others = append(others, o)
		}
	}
	if len(others) == 0 {
		return nil, false, false
	}
	if p.take(a, i, p.run.volumes.Ask(p.group, a)) {
		return others, true, true
	}
	return others, p.fitsLater(a, i), false
}

// fitsLater reports whether the allocation fits on the node after the volumes that no allocation uses are detached.
func (p *placer) fitsLater(a *api.Allocation, i int) bool {
	ask := p.run.volumes.Ask(p.group, a)
	return ask.Impossible() == "" && ask.FitsAfterDetach(p.run.edit.Row(i).Node)
}
