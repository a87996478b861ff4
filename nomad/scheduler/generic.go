package scheduler

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// Descriptions of follow-up evaluations.
const (
	whyReschedule = "created for delayed rescheduling"
	whyDisconnect = "created to end the wait for disconnected allocations"
)

// generic processes service and batch jobs. It first applies the unconditional stops of all groups, so that every group
// can use the freed capacity, and then places each group.
func (r *run) generic() {
	names := r.groups()
	results, settled := r.reconcile(names)
	for _, name := range names {
		res := results[name]
		for _, s := range res.Stop {
			r.stop(s.Alloc, s.Description, s.ClientStatus)
		}
		for _, a := range res.StatusUpdates {
			r.updateStatus(a)
		}
		for _, a := range res.Update {
			r.updateInPlace(a)
		}
		desired := res.Desired
		r.out.Plan.Annotations.DesiredTGUpdates[name] = &desired
		r.resetQueued(name)
	}
	r.finishDeployment(settled)
	r.leavingTogether, r.outdated = replacedTogether(names, results), map[string][]*api.Allocation{}
	for _, name := range names {
		r.outdated[name] = results[name].Outdated
	}
	for _, name := range names {
		if r.live && r.job.Group(name) != nil {
			r.placeGroup(r.job.Group(name), results[name].Place)
			r.restorePlugins(r.job.Group(name), results[name].Older)
		}
	}
	r.out.Missing = r.volumes.Missing()
}

// reconcile compares all groups, creates the deployment if one is needed, and reports whether all groups are settled.
func (r *run) reconcile(names []string) (map[string]reconcile.Result, bool) {
	results, settled := map[string]reconcile.Result{}, true
	for _, name := range names {
		results[name] = reconcile.Group(reconcile.Input{
			Job: r.job, Group: name, Allocs: r.allocs[name], Deployments: r.deployments, Current: r.current,
			Node: r.node, CanStay: r.canStay, Needed: func(a *api.Allocation) bool { return r.allocNeeded(a, a.Group()) }, BoundToVolume: r.boundToVolume, Pending: r.pending, EvalID: r.in.Eval.ID, Now: r.in.Now,
		})
	}
	for name, res := range results {
		if res.State != nil {
			r.addGroup(name, res.State)
		}
		settled = settled && (res.Settled || r.live && r.job.Group(name) == nil)
	}
	return results, settled
}

func (r *run) pending(evalID string) bool {
	e := r.in.View.Eval(evalID)
	return e != nil && !e.Terminal()
}

// hasFollowUp reports whether another pending evaluation will process the allocation.
func (r *run) hasFollowUp(a *api.Allocation) bool {
	return a.FollowupEvalID != "" && a.FollowupEvalID != r.in.Eval.ID && r.pending(a.FollowupEvalID)
}

// canStay reports whether an allocation may be updated in place: its node must still satisfy the rules of the group.
func (r *run) canStay(a *api.Allocation) bool {
	n := r.node(a.NodeID)
	g := r.job.Group(a.TaskGroup)
	if n == nil || g == nil {
		return false
	}
	s := r.statics[g.Name]
	if s == nil {
		if s = feasible.NewStatic(r.job, g); r.statics == nil {
			r.statics = map[string]*feasible.Static{}
		}
		r.statics[g.Name] = s
	}
	if !s.InPool(n) || !s.InDatacenter(n) {
		return false
	}
	reason, _ := s.Refusal(n)
	return reason == "" && !r.violatesDistinct(g, a)
}

// updateInPlace moves a running allocation to the job's version. Under a deployment its health is determined again.
func (r *run) updateInPlace(a *api.Allocation) {
	next := *a
	next.Job, next.EvalID = nil, r.in.Eval.ID
	if r.inDeployment(a.TaskGroup) && a.DeploymentID != r.current.ID {
		next.DeploymentID, next.DeploymentStatus = r.current.ID, nil
	}
	r.add(&next)
}

// updateStatus changes the stored status of an allocation. Such allocations keep their job in the plan, because their
// version does not change.
func (r *run) updateStatus(a reconcile.StatusUpdate) {
	next := *a.Alloc
	if a.ClientStatus != "" {
		next.ClientStatus, next.ClientDescription = a.ClientStatus, a.Description
		next.AllocStates = append(append([]*api.AllocState(nil), next.AllocStates...),
			&api.AllocState{Field: "client_status", Value: a.ClientStatus, Time: r.in.Now})
	}
	switch {
	case a.RescheduleAt.IsZero():
	case next.ClientStatus == api.AllocClientStatusUnknown:
		next.FollowupEvalID = r.followUp(a.RescheduleAt, api.TriggerMaxDisconnectTimeout, whyDisconnect)
	default:
		next.FollowupEvalID = r.followUp(a.RescheduleAt, api.TriggerReschedule, whyReschedule)
	}
	r.add(&next)
}

// placeGroup places the group. Allocations of older versions come first, by the rules of their version.
func (r *run) placeGroup(g *api.TaskGroup, places []reconcile.Place) {
	r.growPlan(len(places))
	var versions []*api.Job
	for i := range places {
		if j := places[i].Job; j != nil && !slices.Contains(versions, j) {
			versions = append(versions, j)
		}
	}
	for _, j := range append(versions, nil) {
		var p *placer
		for i := range places {
			pl := &places[i]
			if pl.Job != j {
				continue
			}
			if p == nil {
				p = r.placerOf(g, j)
			}
			if !p.place(pl) {
				r.out.Queued[g.Name]++
				r.noPlacement(pl)
			}
		}
	}
}

// placerOf returns a placer for the group, or for the same group of an older version.
func (r *run) placerOf(g *api.TaskGroup, older *api.Job) *placer {
	if older == nil || older.Group(g.Name) == nil {
		return newPlacer(r, g)
	}
	then := *r
	then.job = older
	p := newPlacer(&then, older.Group(g.Name))
	r.rankings = then.rankings
	return p
}

// noPlacement records on a failed allocation that its replacement was not placed.
func (r *run) noPlacement(pl *reconcile.Place) {
	if !pl.Failed || pl.Stop == nil {
		return
	}
	next, tracker := *pl.Previous, api.RescheduleTracker{}
	if next.RescheduleTracker != nil {
		tracker = *next.RescheduleTracker
	}
	if tracker.LastReschedule != reconcile.NoPlacement {
		tracker.LastReschedule, next.RescheduleTracker = reconcile.NoPlacement, &tracker
		r.add(&next)
	}
}

// isPluginService reports whether the group belongs to a service job and runs CSI node plugins.
func (r *run) isPluginService(g *api.TaskGroup) bool {
	return r.kind() == api.JobTypeService && feasible.RunsPlugin(g)
}

// allocNeeded reports whether the node of an allocation needs a CSI plugin that the group runs.
func (r *run) allocNeeded(a *api.Allocation, g *api.TaskGroup) bool {
	i := r.edit.Find(a.NodeID)
	return i >= 0 && r.groupNeeded(i, g)
}

func (r *run) groupNeeded(i int, g *api.TaskGroup) bool {
	return r.isPluginService(g) && feasible.NeedsPlugin(r.in.View, r.edit.Row(i).Node, g)
}

// place places one allocation and stops its predecessor when the placement requires it.
func (p *placer) place(pl *reconcile.Place) bool {
	if p.failed != nil && !p.perAllocVolumes && pl.Stop == nil && pl.Node == "" {
		p.failed.CoalescedFailures++
		return false
	}
	paired := pl.Stop != nil && !p.run.stoppedTogether[pl.Stop.Alloc.ID]
	node := p.requiredNode(pl)
	if paired {
		p.vacate(pl.Stop.Alloc)
	}
	var others []*api.Allocation
	if pl.Together && paired {
		others = p.vacateOthers(pl.Stop.Alloc)
	}
	a := p.newAlloc(pl)
	permitted := p.quotaRefusal() == ""
	found := node != "" && p.placeAt(a, node) || node == "" && permitted && p.chooseFor(a, pl)
	gone := found
	if !found && paired && node == "" && permitted && !pl.Together {
		others, gone, found = p.placeAfterOutdated(a, pl.Stop.Alloc)
	}
	if !found && node == "" {
		p.recordFailure(a) // before their resources are restored: those could be the reason
	}
	if !gone {
		for _, o := range others {
			p.restoreOther(o)
		}
		if paired {
			p.unvacate(pl.Stop.Alloc)
		}
		return false
	}
	if paired {
		p.run.stop(pl.Stop.Alloc, pl.Stop.Description, pl.Stop.ClientStatus)
	}
	for _, o := range others {
		p.run.stop(o, pl.Stop.Description, "")
		p.run.stoppedTogether[o.ID] = true
	}
	if found {
		p.run.add(a)
	}
	return found
}

// chooseFor finds the best node for the allocation. It prefers the node of its data, or one that misses its plugin.
func (p *placer) chooseFor(a *api.Allocation, pl *reconcile.Place) bool {
	preferred := p.preferred(pl.Previous)
	if i := p.nodeMissingPlugin(pl); i >= 0 {
		preferred = i
	}
	return p.choose(a, preferred, p.avoided(pl))
}

func (p *placer) newAlloc(pl *reconcile.Place) *api.Allocation {
	r := p.run
	a := &api.Allocation{
		ID: r.in.NewID(), Namespace: r.job.Namespace, EvalID: r.in.Eval.ID, Name: pl.Name,
		JobID: r.job.ID, TaskGroup: p.group.Name,
		DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusPending,
	}
	if pl.Job != nil {
		a.Job = pl.Job
	} else if r.inDeployment(p.group.Name) {
		a.DeploymentID = r.current.ID
		if pl.Canary {
			a.DeploymentStatus = &api.AllocDeploymentStatus{Canary: true}
		}
	}
	if pl.Previous != nil {
		a.PreviousAllocation = pl.Previous.ID
		if pl.Failed {
			a.RescheduleTracker = reconcile.Track(pl.Previous, p.group.ReschedulePolicy, r.in.Now)
		} else if pl.Previous.RescheduleTracker != nil && pl.Stop == nil {
			a.RescheduleTracker = pl.Previous.RescheduleTracker
		}
	}
	return a
}

// nodeMissingPlugin returns a node that needs the CSI plugin of the group and where the group's allocation has ended, or -1.
// The predecessor's node is first. Without capacity there the plugin is placed on another node, because it may be the
// only controller.
func (p *placer) nodeMissingPlugin(pl *reconcile.Place) int {
	if pl.Canary || !p.run.isPluginService(p.group) {
		return -1
	}
	has := map[string]bool{}
	for _, a := range p.run.allocs[p.group.Name] {
		has[a.NodeID] = has[a.NodeID] || !a.Terminal() && !p.run.gone[a.ID] && (pl.Stop == nil || a.ID != pl.Stop.Alloc.ID)
	}
	for node, placed := range p.run.out.Plan.NodeAllocation {
		for _, a := range placed {
			has[node] = has[node] || a.TaskGroup == p.group.Name && a.CreateIndex == 0
		}
	}
	if prev := pl.Previous; prev != nil && !has[prev.NodeID] && p.run.allocNeeded(prev, p.group) {
		return p.run.edit.Find(prev.NodeID)
	}
	for _, a := range p.run.allocs[p.group.Name] {
		if !has[a.NodeID] && p.run.allocNeeded(a, p.group) && (pl.Stop == nil || !p.run.allocNeeded(pl.Stop.Alloc, p.group)) {
			return p.run.edit.Find(a.NodeID)
		}
	}
	return -1
}

// preferred returns the predecessor's node when the group has a sticky or migrating disk, else -1.
func (p *placer) preferred(prev *api.Allocation) int {
	d := p.group.EphemeralDisk
	if prev == nil || d == nil || !d.Sticky && !d.Migrate || prev.ClientStatus == api.AllocClientStatusFailed {
		return -1
	}
	return p.run.edit.Find(prev.NodeID)
}

func (p *placer) avoided(pl *reconcile.Place) map[int]bool {
	if !pl.Failed {
		return nil
	}
	nodes := map[int]bool{}
	for _, id := range reconcile.AvoidNodes(pl.Previous) {
		if i := p.run.edit.Find(id); i >= 0 {
			nodes[i] = true
		}
	}
	return nodes
}

// vacate frees the allocation's resources for the choice of its successor.
func (p *placer) vacate(a *api.Allocation) {
	p.run.vacate(a)
	p.countVacated(a, -1)
}

func (p *placer) unvacate(a *api.Allocation) {
	p.run.unvacate(a)
	p.countVacated(a, 1)
}

// countVacated removes an allocation of the group from the counts (n = -1) or adds it again (n = 1).
func (p *placer) countVacated(a *api.Allocation, n int) {
	i := p.run.edit.Find(a.NodeID)
	if i < 0 {
		return
	}
	if !a.ClientTerminal() { // else it was not counted
		p.count(i, n)
	}
	p.touch(i)
	if n < 0 && len(p.distinct.properties) > 0 { // other nodes with that property may fit now
		for i := range p.ranks {
			p.touch(i)
		}
	}
}
