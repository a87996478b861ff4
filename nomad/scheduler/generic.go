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

// generic processes service and batch jobs. First everything is stopped that goes anyway, in all groups,
// so that its place is free for all; then each group places.
func (r *run) generic() {
	names := r.groups()
	results, settled := r.reconcile(names)
	for _, name := range names {
		res := results[name]
		for _, s := range res.Stop {
			r.stop(s.Alloc, s.Description, s.ClientStatus)
		}
		for _, a := range res.Amend {
			r.amend(a)
		}
		for _, a := range res.Update {
			r.updateInPlace(a)
		}
		desired := res.Desired
		r.out.Plan.Annotations.DesiredTGUpdates[name] = &desired
		r.queue(name)
	}
	r.settle(settled)
	r.leave, r.outdated = leaving(names, results), map[string][]*api.Allocation{}
	for _, name := range names {
		r.outdated[name] = results[name].Outdated
	}
	for _, name := range names {
		if r.live && r.job.Group(name) != nil {
			r.placeGroup(r.job.Group(name), results[name].Place)
			r.serve(r.job.Group(name), results[name].Older)
		}
	}
	r.out.Missing = r.volumes.Missing()
}

// reconcile compares all groups, begins the deployment if there is to be one, and reports whether all are settled.
func (r *run) reconcile(names []string) (map[string]reconcile.Result, bool) {
	results, settled := map[string]reconcile.Result{}, true
	for _, name := range names {
		results[name] = reconcile.Group(reconcile.Input{
			Job: r.job, Group: name, Allocs: r.allocs[name], Deployments: r.deployments, Current: r.current,
			Node: r.node, CanStay: r.canStay, Needed: func(a *api.Allocation) bool { return r.needed(a, a.Group()) }, Bound: r.bound, Pending: r.pending, EvalID: r.in.Eval.ID, Now: r.in.Now,
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

// comesBack reports whether an evaluation other than this one is still to look at the allocation.
func (r *run) comesBack(a *api.Allocation) bool {
	return a.FollowupEvalID != "" && a.FollowupEvalID != r.in.Eval.ID && r.pending(a.FollowupEvalID)
}

// canStay is the fit test of an in-place update: the node must still be one for the group.
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
	return reason == "" && !r.tooNear(g, a)
}

// updateInPlace takes an allocation over to the job's version as it is; under a deployment its health
// has to be found out again.
func (r *run) updateInPlace(a *api.Allocation) {
	next := *a
	next.Job, next.EvalID = nil, r.in.Eval.ID
	if r.joins(a.TaskGroup) && a.DeploymentID != r.current.ID {
		next.DeploymentID, next.DeploymentStatus = r.current.ID, nil
	}
	r.add(&next)
}

// amend changes what the servers remember of an allocation. Such rows keep their job in the plan: they
// stay at their version.
func (r *run) amend(a reconcile.Amend) {
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

// placeGroup places what the group asks for. First comes what stays of older versions, by their rules.
func (r *run) placeGroup(g *api.TaskGroup, places []reconcile.Place) {
	r.expect(len(places))
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

// placerOf is a placer for the group, or for what it was in an older job.
func (r *run) placerOf(g *api.TaskGroup, older *api.Job) *placer {
	if older == nil || older.Group(g.Name) == nil {
		return newPlacer(r, g)
	}
	then := *r
	then.job = older
	p := newPlacer(&then, older.Group(g.Name))
	r.surveys = then.surveys
	return p
}

// noPlacement notes on a failed allocation that nobody could follow it yet.
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

// plugin reports whether the group is that of a service that runs CSI plugins on its nodes.
func (r *run) plugin(g *api.TaskGroup) bool {
	return r.kind() == api.JobTypeService && feasible.RunsPlugin(g)
}

// needed reports whether the node of an allocation needs the CSI plugin that the group runs.
func (r *run) needed(a *api.Allocation, g *api.TaskGroup) bool {
	i := r.edit.Find(a.NodeID)
	return i >= 0 && r.needs(i, g)
}

func (r *run) needs(i int, g *api.TaskGroup) bool {
	return r.plugin(g) && feasible.Needs(r.in.View, r.edit.Row(i).Node, g)
}

// place places one allocation, with its predecessor's stop when it has one.
func (p *placer) place(pl *reconcile.Place) bool {
	if p.failed != nil && !p.volatile && pl.Stop == nil && pl.Node == "" {
		p.failed.CoalescedFailures++
		return false
	}
	paired := pl.Stop != nil && !p.run.stopped[pl.Stop.Alloc.ID]
	node := p.pinned(pl)
	if paired {
		p.vacate(pl.Stop.Alloc)
	}
	var others []*api.Allocation
	if pl.Together && paired {
		others = p.vacateOthers(pl.Stop.Alloc)
	}
	a := p.newAlloc(pl)
	found := node != "" && p.placeAt(a, node) || node == "" && p.chooseFor(a, pl)
	gone := found
	if !found && paired && node == "" && !pl.Together {
		others, gone, found = p.makeWay(a, pl.Stop.Alloc)
	}
	if !found && node == "" {
		p.fail(a) // while they are gone: else what refuses it may be what they have
	}
	if !gone {
		for _, o := range others {
			p.back(o)
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
		p.run.stopped[o.ID] = true
	}
	if found {
		p.run.add(a)
	}
	return found
}

// chooseFor finds the best node for the allocation: first that of its data, or one that waits for its plugin.
func (p *placer) chooseFor(a *api.Allocation, pl *reconcile.Place) bool {
	preferred := p.preferred(pl.Previous)
	if i := p.waiting(pl); i >= 0 {
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
	} else if r.joins(p.group.Name) {
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

// waiting is a node that waits for the CSI plugin that the group runs, or -1: volumes of it are there, and of the group there
// was one, which has ended. That of the predecessor goes first. Without capacity there it is placed elsewhere, for it may be
// the controller of others.
func (p *placer) waiting(pl *reconcile.Place) int {
	if pl.Canary || !p.run.plugin(p.group) {
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
	if prev := pl.Previous; prev != nil && !has[prev.NodeID] && p.run.needed(prev, p.group) {
		return p.run.edit.Find(prev.NodeID)
	}
	for _, a := range p.run.allocs[p.group.Name] {
		if !has[a.NodeID] && p.run.needed(a, p.group) && (pl.Stop == nil || !p.run.needed(pl.Stop.Alloc, p.group)) {
			return p.run.edit.Find(a.NodeID)
		}
	}
	return -1
}

// preferred is the node of the predecessor when the data of the group should stay or be near; else -1.
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

// vacate frees what the allocation uses, for the choice of its successor.
func (p *placer) vacate(a *api.Allocation) {
	p.run.vacate(a)
	p.left(a, -1)
}

func (p *placer) unvacate(a *api.Allocation) {
	p.run.unvacate(a)
	p.left(a, 1)
}

// left counts an allocation of the group out of (or back into) what the choice of nodes depends on.
func (p *placer) left(a *api.Allocation, n int) {
	i := p.run.edit.Find(a.NodeID)
	if i < 0 {
		return
	}
	if !a.ClientTerminal() { // else it was not counted
		p.count(i, n)
	}
	p.touch(i)
	if n < 0 && len(p.distinct.properties) > 0 { // other nodes of that property may do now
		for i := range p.fit {
			p.touch(i)
		}
	}
}
