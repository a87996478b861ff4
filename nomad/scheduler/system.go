package scheduler

import (
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// system processes system and sysbatch jobs: one allocation per group on each node that can run it.
func (r *run) system() {
	for _, name := range r.groups() {
		var g *api.TaskGroup
		if r.live {
			g = r.job.Group(name)
		}
		if g == nil {
			r.stopGroup(name)
			continue
		}
		r.out.Queued[name] = 0
		s := &systemGroup{run: r, group: g, desired: &api.DesiredUpdates{}, byNode: map[string]*api.Allocation{}, failed: map[string][]*api.Allocation{}}
		r.out.Plan.Annotations.DesiredTGUpdates[name] = s.desired
		s.review()
		s.place()
	}
	r.out.Missing = r.volumes.Missing()
}

func (r *run) stopGroup(name string) {
	res := reconcile.Group(reconcile.Input{
		Group: name, Allocs: r.allocs[name], Node: r.in.View.Node, Now: r.in.Now,
	})
	for _, s := range res.Stop {
		r.stop(s.Alloc, s.Description, s.ClientStatus)
	}
}

// systemGroup is one group of a system or sysbatch job.
type systemGroup struct {
	run     *run
	group   *api.TaskGroup
	desired *api.DesiredUpdates
	// byNode is what a node keeps or, in replace, what is to be replaced there.
	byNode  map[string]*api.Allocation
	replace []*api.Allocation
	static  *feasible.Static
	// failed are the allocations of this version that failed, per node, newest first.
	failed map[string][]*api.Allocation
}

// A node on which a system job failed is tried again after retryFirst; each further failure doubles that.
const (
	retryFirst = 5 * time.Second
	retryMax   = time.Hour
)

// Descriptions of stops.
const (
	whyNotNeeded = "alloc not needed due to job update"
	whyMigrating = "alloc is being migrated"
	whyUpdating  = "alloc is being updated due to job update"
)

// review decides about the allocations that exist.
func (s *systemGroup) review() {
	s.static = feasible.NewStatic(s.run.job, s.group)
	allocs := slices.Clone(s.run.allocs[s.group.Name])
	slices.SortStableFunc(allocs, func(a, b *api.Allocation) int { return int(b.CreateIndex) - int(a.CreateIndex) })
	for _, a := range allocs {
		s.reviewOne(a)
	}
}

func (s *systemGroup) reviewOne(a *api.Allocation) {
	if a.ServerTerminal() {
		return
	}
	if a.ClientTerminal() {
		switch {
		case s.finished(a) && s.byNode[a.NodeID] == nil:
			s.byNode[a.NodeID] = a
		case a.ClientStatus == api.AllocClientStatusFailed && s.current(a):
			s.failed[a.NodeID] = append(s.failed[a.NodeID], a)
		}
		return
	}
	n := s.run.in.View.Node(a.NodeID)
	fate := reconcile.FateOf(a, n, s.group, s.run.in.Now)
	switch {
	case fate.Lost != "":
		s.stop(a, fate.Lost, api.AllocClientStatusLost)
	case fate.Unknown: // nobody can take its place elsewhere
		s.byNode[a.NodeID] = a
		if m, news := reconcile.Forgotten(a, fate); news {
			s.run.amend(m)
			s.desired.Disconnect++
		}
	case a.ClientStatus == api.AllocClientStatusUnknown && s.byNode[a.NodeID] == nil: // its node is about to report it
		s.byNode[a.NodeID] = a
		s.desired.Ignore++
	case a.DesiredTransition.Migrate:
		s.stop(a, whyMigrating, "")
		s.desired.Migrate++
	case !s.static.InPool(n) || !s.static.InDatacenter(n) || s.byNode[a.NodeID] != nil:
		s.stop(a, whyNotNeeded, "")
	default:
		s.byNode[a.NodeID] = a
		s.renew(a, n)
	}
}

// finished reports whether a sysbatch allocation of this version did its work.
func (s *systemGroup) finished(a *api.Allocation) bool {
	return s.run.job.Type == api.JobTypeSysbatch && reconcile.Succeeded(a) && s.current(a)
}

func (s *systemGroup) current(a *api.Allocation) bool {
	return a.Job != nil && a.Job.Version == s.run.job.Version && a.Job.CreateIndex == s.run.job.CreateIndex
}

// rests reports whether the node is left alone for now because the job failed there; a follow-up
// evaluation comes when that is over.
func (s *systemGroup) rests(node string) bool {
	failures := s.failed[node]
	if len(failures) == 0 || failures[0].DesiredTransition.ForceReschedule {
		return false
	}
	last := failures[0]
	delay := min(retryMax, retryFirst<<min(len(failures)-1, 10))
	due := reconcile.EndedAt(last).Add(delay)
	if last.FollowupEvalID == s.run.in.Eval.ID && last.FollowupEvalID != "" || !due.After(s.run.in.Now.Add(time.Second)) {
		return false
	}
	if last.FollowupEvalID == "" || !s.run.pending(last.FollowupEvalID) {
		s.run.amend(reconcile.Amend{Alloc: last, RescheduleAt: due})
		s.desired.RescheduleLater++
	}
	return true
}

// renew brings a running allocation to the job's version.
func (s *systemGroup) renew(a *api.Allocation, n *api.Node) {
	j := s.run.job
	if a.Job != nil && a.Job.JobModifyIndex == j.JobModifyIndex && a.Job.CreateIndex == j.CreateIndex {
		s.desired.Ignore++
		return
	}
	if reason, _ := s.static.Refusal(n); reason != "" {
		s.stop(a, whyNotNeeded, "")
		return
	}
	if reconcile.Destructive(a.Job, j, s.group.Name) {
		s.replace = append(s.replace, a)
		return
	}
	s.desired.InPlaceUpdate++
	s.run.updateInPlace(a)
}

func (s *systemGroup) stop(a *api.Allocation, why, client string) {
	s.desired.Stop++
	s.run.stop(a, why, client)
}

// place replaces what must be replaced and fills the nodes that have nothing.
func (s *systemGroup) place() {
	p := newPlacer(s.run, s.group)
	now, again := reconcile.Step(s.run.job, s.group, len(s.replace), s.settling(), s.run.in.Now)
	for _, a := range s.replace[:now] {
		i := s.run.edit.Find(a.NodeID)
		s.desired.DestructiveUpdate++
		p.vacate(a)
		if !s.placeOn(p, i, a) {
			p.unvacate(a)
			continue
		}
		s.run.stop(a, whyUpdating, "")
	}
	if !again.IsZero() {
		s.run.followUp(again, api.TriggerRollingUpdate, whyRolling)
	}
	for i := range s.run.edit.Size() {
		row := s.run.edit.Row(i)
		if row == nil || s.byNode[row.Node.ID] != nil {
			continue
		}
		if p.fit[i].ok && !s.rests(row.Node.ID) {
			s.desired.Place++
			s.placeOn(p, i, nil)
		}
	}
}

// settling counts the allocations of this version that do not run yet.
func (s *systemGroup) settling() reconcile.Settling {
	var n reconcile.Settling
	for _, a := range s.byNode {
		if a.Job != nil && a.Job.JobModifyIndex == s.run.job.JobModifyIndex {
			n.Add(a)
		}
	}
	return n
}

func (s *systemGroup) placeOn(p *placer, i int, prev *api.Allocation) bool {
	r := s.run
	a := p.newAlloc(&reconcile.Place{Name: reconcile.Name(r.job.ID, s.group.Name, 0), Previous: prev})
	var ask *feasible.VolumeAsk
	if p.hasVolumes {
		ask = r.volumes.Ask(s.group, a)
	}
	if p.take(a, i, ask) {
		p.explainSystem(a, i)
		r.add(a)
		return true
	}
	s.refuse(p, i, ask)
	return false
}

// refuse counts a node without room as a failure; a node that the rules leave out is none.
func (s *systemGroup) refuse(p *placer, i int, ask *feasible.VolumeAsk) {
	row := s.run.edit.Row(i)
	if p.failed == nil {
		p.failed = p.seen.metric()
	}
	reason, room := p.refusal(i)
	switch {
	case reason != "" && !room:
		filtered(p.failed, row.Node, reason)
		return
	case reason == "" && ask != nil && ask.Refusal(row.Node) != "":
		filtered(p.failed, row.Node, ask.Refusal(row.Node))
		if ask.Impossible() == "" {
			return
		}
	case reason == "":
		exhausted(p.failed, row.Node, "network: dynamic port selection failed")
	default:
		exhausted(p.failed, row.Node, reason)
	}
	s.run.out.Failed[s.group.Name] = p.failed
	s.run.out.Queued[s.group.Name]++
	if ask == nil || ask.Impossible() == "" {
		s.run.out.FullNodes = append(s.run.out.FullNodes, row.Node.ID)
	}
}
