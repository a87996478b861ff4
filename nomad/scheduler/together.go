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

// makeWay frees a node for the successor of an allocation there that is vacated, when nothing keeps it from the node but
// volumes of those that are to be replaced. It answers who of them has to go with that allocation, if they can go at all, and
// whether the successor was placed: where the node takes no more volumes it comes when theirs have left.
func (p *placer) makeWay(a, prev *api.Allocation) (others []*api.Allocation, gone, found bool) {
	i := p.run.edit.Find(prev.NodeID)
	if !p.hasVolumes || i < 0 || !p.fit[i].ok() || p.run.node(prev.NodeID) == nil {
		return nil, false, false
	}
	if reason, _ := p.refusal(p.run.edit.Row(i)); reason != "" {
		return nil, false, false
	}
	if p.comesLater(a, i) {
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
	return others, p.comesLater(a, i), false
}

// comesLater reports whether the allocation can be on the node when the volumes have left it that nobody keeps there.
func (p *placer) comesLater(a *api.Allocation, i int) bool {
	ask := p.run.volumes.Ask(p.group, a)
	return ask.Impossible() == "" && ask.Later(p.run.edit.Row(i).Node)
}
