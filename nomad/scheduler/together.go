package scheduler

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// bound reports whether the allocation shares a volume that one node may use, and no allocation of its group as it is now
// may come to that node, whatever capacity it has.
func (r *run) bound(a *api.Allocation) bool {
	n, g := r.node(a.NodeID), r.job.Group(a.TaskGroup)
	if n == nil || !g.OnOneNode() || !a.Group().OnOneNode() {
		return false
	}
	return !feasible.Takes(r.in.View, n, r.job, g) || !r.canStay(a)
}

// leaving are the allocations of all groups that leave their volumes together.
func leaving(groups []string, results map[string]reconcile.Result) (all []*api.Allocation) {
	for _, name := range groups {
		for i := range results[name].Place {
			if pl := &results[name].Place[i]; pl.Together {
				all = append(all, pl.Previous)
			}
		}
	}
	return all
}

// vacateOthers frees what those use who leave their volumes together with the allocation, on its node. It answers whom the
// plan did not stop before.
func (p *placer) vacateOthers(a *api.Allocation) (others []*api.Allocation) {
	for _, o := range p.run.leave {
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

// back takes vacateOthers back for one of them.
func (p *placer) back(o *api.Allocation) {
	if o.TaskGroup == p.group.Name {
		p.unvacate(o)
		return
	}
	p.run.unvacate(o)
	p.touch(p.run.edit.Find(o.NodeID))
}
