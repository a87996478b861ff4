package scheduler

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// restorePlugins places CSI plugins on nodes that need them and run none: the plugin was replaced on another node while
// its node was down or had no capacity. These allocations exceed the count of the group, in their name indexes too, and
// are the first to stop after their volumes are detached. While canaries are unpromoted they have the older version.
func (r *run) restorePlugins(g *api.TaskGroup, older *api.Job) {
	if !r.isPluginService(g) || g.Count == 0 {
		return
	}
	if older != nil && !feasible.SharesPlugin(older.Group(g.Name), g) {
		older = nil
	}
	var p *placer
	names := r.usedIndexes(g.Name)
	had := map[string]bool{}
	for _, a := range r.allocs[g.Name] {
		had[a.NodeID] = true
	}
	for i := range r.edit.Size() {
		row := r.edit.Row(i)
		if row == nil || !feasible.MissesPlugin(r.in.View, row.Node, r.job, g, had[row.Node.ID]) || r.pluginPresent(row.Node, g) {
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

// pluginPresent reports whether an allocation on the node runs a CSI plugin of the group or is to run it. A failed one is
// rescheduled by the rules of its own job.
func (r *run) pluginPresent(n *api.Node, g *api.TaskGroup) bool {
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

// usedIndexes returns the name indexes of the group's allocations, including those in the plan.
func (r *run) usedIndexes(group string) map[int]bool {
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

// requiredNode returns the only node on which the allocation may be placed, or "". The predecessor runs a CSI plugin that
// the node needs, and keeps running until there is capacity for its successor.
func (p *placer) requiredNode(pl *reconcile.Place) string {
	if pl.Node == "" && pl.Stop != nil && !pl.Failed && p.run.allocNeeded(pl.Stop.Alloc, p.group) {
		return pl.Stop.Alloc.NodeID
	}
	return pl.Node
}

// placeAt places the allocation on the node and on no other. Without capacity, any change of the node unblocks the evaluation.
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
		m = p.counts.metric()
		p.run.out.Failed[p.group.Name] = m
	}
	if !p.recordQuota(m) {
		p.countRefusal(m, i, ask)
		p.run.out.Escaped = true
	}
	return false
}
