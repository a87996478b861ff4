package scheduler

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// serve places what nodes need that have nobody who runs it: a CSI plugin that was replaced elsewhere while its node was
// away, or because there was no capacity for it. Such allocations are beyond the count of the group, by their names too, and
// go before others when their volumes have left. While canaries are unpromoted they are of the older version.
func (r *run) serve(g *api.TaskGroup, older *api.Job) {
	if !r.plugin(g) || g.Count == 0 {
		return
	}
	if older != nil && !feasible.SharesPlugin(older.Group(g.Name), g) {
		older = nil
	}
	var p *placer
	names := r.namesOf(g.Name)
	had := map[string]bool{}
	for _, a := range r.allocs[g.Name] {
		had[a.NodeID] = true
	}
	for i := range r.edit.Size() {
		row := r.edit.Row(i)
		if row == nil || !feasible.Left(r.in.View, row.Node, r.job, g, had[row.Node.ID]) || r.served(row.Node, g) {
			continue
		}
		if p == nil {
			p = r.placerOf(g, older)
		}
		index := g.Count
		for names[index] {
			index++
		}
		names[index] = true
		pl := &reconcile.Place{Name: reconcile.Name(r.job.ID, g.Name, index), Node: row.Node.ID, Job: older}
		r.out.Plan.Annotations.DesiredTGUpdates[g.Name].Place++
		if !p.place(pl) {
			r.out.Queued[g.Name]++
		}
	}
}

// served reports whether something on the node runs the CSI plugins of the group, or is to: what failed there is tried again
// by the rules of its own job.
func (r *run) served(n *api.Node, g *api.TaskGroup) bool {
	for a := range r.in.View.AllocsByNode(n.ID) {
		if !a.ServerTerminal() && !r.gone[a.ID] && feasible.SharesPlugin(a.Group(), g) {
			return true
		}
	}
	for _, a := range r.out.Plan.NodeAllocation[n.ID] {
		of := r.job
		if a.Job != nil {
			of = a.Job
		}
		if a.CreateIndex == 0 && feasible.SharesPlugin(of.Group(a.TaskGroup), g) {
			return true
		}
	}
	return false
}

// namesOf are the indexes of the names that allocations of the group have, or get by the plan.
func (r *run) namesOf(group string) map[int]bool {
	names := map[int]bool{}
	for _, a := range r.allocs[group] {
		if !a.ServerTerminal() && !r.gone[a.ID] {
			names[reconcile.Index(a.Name)] = true
		}
	}
	for _, placed := range r.out.Plan.NodeAllocation {
		for _, a := range placed {
			if a.TaskGroup == group {
				names[reconcile.Index(a.Name)] = true
			}
		}
	}
	return names
}

// pinned is the node on which the allocation is to be or nowhere: its predecessor runs a CSI plugin there that the node
// needs, and serves it until there is capacity for its successor.
func (p *placer) pinned(pl *reconcile.Place) string {
	if pl.Node == "" && pl.Stop != nil && !pl.Failed && p.run.needed(pl.Stop.Alloc, p.group) {
		return pl.Stop.Alloc.NodeID
	}
	return pl.Node
}

// placeAt places the allocation on the node and nowhere else. When it has no capacity, each change of it may help.
func (p *placer) placeAt(a *api.Allocation, node string) bool {
	i := p.run.edit.Find(node)
	if i < 0 {
		return false
	}
	var ask *feasible.VolumeAsk
	if p.hasVolumes {
		ask = p.run.volumes.Ask(p.group, a)
	}
	if p.take(a, i, ask) || p.preemptOn(a, i, ask) {
		p.explainSystem(a, i)
		return true
	}
	m := p.run.out.Failed[p.group.Name]
	if m == nil {
		m = p.seen.metric()
		p.run.out.Failed[p.group.Name] = m
	}
	p.refusedBy(m, i, ask)
	p.run.out.Escaped = true
	return false
}
