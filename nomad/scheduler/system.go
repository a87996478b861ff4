package scheduler

import (
	"iter"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// system processes system and sysbatch jobs: one allocation per group on each node that can run it.
func (r *run) system() {
	settled := true
	for _, name := range r.groups() {
		var g *api.TaskGroup
		if r.live {
			g = r.job.Group(name)
		}
		if g == nil || g.Count == 0 {
			r.stopGroup(name)
			continue
		}
		r.queue(name)
		s := &systemGroup{
			run: r, group: g, desired: &api.DesiredUpdates{}, byNode: map[string]*api.Allocation{}, had: map[string]bool{}, tried: map[string]bool{}, moved: map[string]*api.Allocation{}, ended: map[string][]*api.Allocation{}, redo: map[string]bool{},
			roll: reconcile.RolloutOf(g, r.current), name: reconcile.Name(r.job.ID, name, 0),
		}
		r.out.Plan.Annotations.DesiredTGUpdates[name] = s.desired
		s.review()
		s.rollOut()
		s.place()
		settled = settled && s.settled()
	}
	r.settle(settled)
	r.out.Missing = r.volumes.Missing()
}

func (r *run) stopGroup(name string) {
	res := reconcile.Group(reconcile.Input{
		Group: name, Allocs: r.allocs[name], Node: r.node, Now: r.in.Now,
	})
	for _, s := range res.Stop {
		r.stop(s.Alloc, s.Description, s.ClientStatus)
	}
	r.queue(name)
	desired := res.Desired
	r.out.Plan.Annotations.DesiredTGUpdates[name] = &desired
}

// systemGroup is one group of a system or sysbatch job.
type systemGroup struct {
	run     *run
	group   *api.TaskGroup
	desired *api.DesiredUpdates
	// name is that of all allocations.
	name string
	// byNode is what a node keeps or, in replace, what is to be replaced there; what is in update goes over
	// to the job's version.
	byNode map[string]*api.Allocation
	// had are the nodes of which the group had an allocation, whatever became of it.
	had map[string]bool
	// tried are those of which it had a canary of the deployment.
	tried map[string]bool
	// moved are those that somebody wants stopped, by node. What follows one there names it: the plan leaves it out when
	// the work was finished meanwhile.
	moved   map[string]*api.Allocation
	replace []*api.Allocation
	update  []*api.Allocation
	static  *feasible.Static
	placer  *placer
	// roll is the group's part of the deployment, members and canaries are its allocations; ran says that
	// this version has some.
	roll     reconcile.Rollout
	members  reconcile.Health
	canaries int
	ran      bool
	// waiting counts nodes that wait for something: placed on now, resting, or not allowed yet.
	waiting int
	// ended are the allocations of this version that failed, or ended although they were to go on, per node, newest
	// first.
	ended map[string][]*api.Allocation
	// redo are nodes where the newest finished work is not what the job asks for.
	redo map[string]bool
}

// A node on which a system job failed or ended is tried again after retryFirst; each further end doubles that.
const (
	retryFirst = 5 * time.Second
	retryMax   = time.Hour
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
	s.ran, s.had[a.NodeID] = s.ran || s.current(a), true
	if s.roll.Member(a) && a.DeploymentStatus != nil && a.DeploymentStatus.Canary {
		s.tried[a.NodeID] = true
	}
	if a.ServerTerminal() {
		return
	}
	if a.ClientTerminal() {
		switch {
		case s.finished(a) && s.byNode[a.NodeID] == nil:
			s.byNode[a.NodeID] = a
		case s.once() && reconcile.Finished(a): // what it did before that is older still
			s.redo[a.NodeID] = true
		case s.current(a) && !a.DesiredTransition.Migrate:
			s.ended[a.NodeID] = append(s.ended[a.NodeID], a)
		}
		return
	}
	n := s.run.node(a.NodeID)
	fate := reconcile.FateOf(a, n, s.group, s.run.in.Now)
	switch {
	case fate.Lost != "":
		s.stop(a, fate.Lost, api.AllocClientStatusLost)
	case fate.Unknown: // nobody can take its place elsewhere
		s.byNode[a.NodeID] = a
		if m, news := reconcile.Forgotten(a, fate, s.run.comesBack(a)); news {
			s.run.amend(m)
			if m.ClientStatus != "" {
				s.desired.Disconnect++
			}
		}
	case reconcile.Deprived(a, n) != "":
		s.stop(a, reconcile.Deprived(a, n), "")
	case a.ClientStatus == api.AllocClientStatusUnknown && s.byNode[a.NodeID] == nil: // its node is about to report it
		s.byNode[a.NodeID] = a
		s.desired.Ignore++
	case a.DesiredTransition.Migrate:
		s.stop(a, reconcile.Migrating, "")
		s.desired.Migrate++
		s.moved[a.NodeID] = a
	case s.byNode[a.NodeID] != nil || !s.reaches(n) && !s.holds(n):
		s.stop(a, reconcile.NotNeeded, "")
	default:
		s.byNode[a.NodeID] = a
		s.renew(a, n)
	}
}

func (s *systemGroup) once() bool { return s.run.kind() == api.JobTypeSysbatch }

// finished reports whether a sysbatch allocation did the work that the job's version asks for: an older version
// may have asked for the same.
func (s *systemGroup) finished(a *api.Allocation) bool {
	return s.once() && reconcile.Finished(a) && !s.redo[a.NodeID] && reconcile.SameWork(a, s.run.job)
}

func (s *systemGroup) current(a *api.Allocation) bool {
	return a.Job != nil && a.Job.Version == s.run.job.Version && a.Job.CreateIndex == s.run.job.CreateIndex
}

// rests reports whether the node is left alone for now because the job failed or ended there; a
// follow-up evaluation comes when that is over.
func (s *systemGroup) rests(node string) bool {
	ends := s.ended[node]
	if len(ends) == 0 || ends[0].DesiredTransition.ForceReschedule {
		return false
	}
	last := ends[0]
	delay := min(retryMax, retryFirst<<min(len(ends)-1, 10))
	due := reconcile.EndedAt(last).Add(delay)
	if last.FollowupEvalID == s.run.in.Eval.ID && last.FollowupEvalID != "" || !due.After(s.run.in.Now.Add(time.Second)) {
		return false
	}
	if !s.run.comesBack(last) {
		s.run.amend(reconcile.Amend{Alloc: last, RescheduleAt: due})
		s.desired.RescheduleLater++
	}
	return true
}

// renew finds how a running allocation comes to the job's version.
func (s *systemGroup) renew(a *api.Allocation, n *api.Node) {
	j := s.run.job
	if a.Job != nil && a.Job.JobModifyIndex == j.JobModifyIndex && a.Job.CreateIndex == j.CreateIndex {
		s.desired.Ignore++
		if s.roll.Member(a) {
			s.members.Add(a)
			if a.DeploymentStatus != nil && a.DeploymentStatus.Canary {
				s.canaries++
			}
		}
		return
	}
	if reason, _ := s.static.Refusal(n); reason != "" || !s.reaches(n) {
		if s.holds(n) { // as it is, until its volumes have left
			s.desired.Ignore++
			return
		}
		delete(s.byNode, a.NodeID)
		s.stop(a, reconcile.NotNeeded, "")
		return
	}
	if reconcile.Destructive(a.Job, j, s.group.Name) {
		if !feasible.Takes(s.run.in.View, n, j, s.group) { // nothing new may come there, and nobody wants the old one
			delete(s.byNode, a.NodeID)
			s.stop(a, reconcile.NotNeeded, "")
			return
		}
		s.replace = append(s.replace, a)
		return
	}
	s.update = append(s.update, a)
}

// reaches reports whether the node is of the job's pool and datacenters.
func (s *systemGroup) reaches(n *api.Node) bool {
	return s.static.InPool(n) && s.static.InDatacenter(n)
}

// holds reports whether the node needs the plugin that the group runs for its volumes.
func (s *systemGroup) holds(n *api.Node) bool { return feasible.Holds(s.run.in.View, n, s.group) }

func (s *systemGroup) stop(a *api.Allocation, why, client string) {
	s.desired.Stop++
	s.run.stop(a, why, client)
}

// rollOut begins a deployment, or keeps its total in step with the nodes, and updates in place.
func (s *systemGroup) rollOut() {
	s.placer = newPlacer(s.run, s.group)
	total, name := s.candidates(), s.group.Name
	switch now := s.roll.Running(); {
	case s.run.kind() == api.JobTypeSysbatch:
	case s.roll.Begins(total, s.ran, len(s.update)+len(s.replace) > 0):
		s.run.addGroup(name, s.roll.State(total, s.roll.Share(len(s.replace))))
		s.roll = reconcile.RolloutOf(s.group, s.run.current)
	case now != nil && (now.DesiredTotal != total || s.roll.Unpromoted() && now.DesiredCanaries > max(1, total)):
		changed := *now
		changed.DesiredTotal = total
		if s.roll.Unpromoted() { // there may be fewer nodes to try it out on than there were
			changed.DesiredCanaries = min(changed.DesiredCanaries, max(1, total))
		}
		s.run.addGroup(name, &changed)
		s.roll = reconcile.RolloutOf(s.group, s.run.current)
	}
	for _, a := range s.update {
		s.desired.InPlaceUpdate++
		s.run.updateInPlace(a)
	}
}

// candidates counts the nodes that have capacity or an allocation, unless that is of this version already and
// was not brought by the deployment.
func (s *systemGroup) candidates() int {
	n := 0
	for i := range s.run.edit.Size() {
		row := s.run.edit.Row(i)
		if row == nil {
			continue
		}
		switch a := s.byNode[row.Node.ID]; {
		case a == nil:
			if _, full := s.placer.refusal(row); !full && s.suits(i, row.Node) {
				n++
			}
		case s.roll.Member(a) && s.suits(i, row.Node), !s.current(a) && s.takes(i, row.Node): // what stays as it is is not rolled out
			n++
		}
	}
	return n
}

// takes reports whether the rules allow an allocation on the node: it takes part in placement, or needs the plugin that
// the group runs.
func (s *systemGroup) takes(i int, n *api.Node) bool {
	if s.placer.fit[i].ok() || !feasible.Serves(s.run.in.View, n, s.run.job, s.group) {
		return s.placer.fit[i].ok()
	}
	reason, _ := s.static.Refusal(n)
	return reason == "" && s.reaches(n)
}

// suits reports whether a node without an allocation is to have one: it takes it, or has left the job and needs the plugin.
func (s *systemGroup) suits(i int, n *api.Node) bool {
	return s.takes(i, n) || s.run.kind() == api.JobTypeSystem && feasible.Left(s.run.in.View, n, s.run.job, s.group, s.had[n.ID])
}

// place replaces what must be replaced and fills the nodes that have nothing. Until canaries are promoted,
// only they are placed.
func (s *systemGroup) place() {
	if s.roll.Unpromoted() {
		s.tryOut()
	} else {
		s.replaceSome(s.roll.Limit(len(s.replace), s.members, 0), false)
		s.run.expect(s.run.edit.Size() - len(s.byNode))
		for i, node := range s.empty() {
			if s.rests(node) {
				s.waiting++
				continue
			}
			s.desired.Place++
			if s.placeOn(s.placer, i, s.moved[node], false) {
				s.waiting++
			}
		}
	}
	s.explainNowhere()
}

// tryOut places the canaries that are missing: where one was that has gone, so that no other node loses what it has; in
// place of older allocations; and else on nodes that have none. One that failed comes back to its node, later.
func (s *systemGroup) tryOut() {
	missing := max(0, s.roll.Canaries()-s.canaries)
	if s.roll.Halted() {
		missing = 0
	}
	var others []int
	for i, node := range s.empty() {
		s.waiting++
		switch {
		case !s.tried[node]:
			others = append(others, i)
		case missing == 0:
		case s.rests(node):
			missing--
		case s.fill(i):
			missing--
		}
	}
	missing -= s.replaceSome(min(missing, len(s.replace)), true)
	for _, i := range others {
		if missing > 0 && !s.rests(s.run.edit.Row(i).Node.ID) && s.fill(i) {
			missing--
		}
	}
}

// fill places a canary on a node that has no allocation.
func (s *systemGroup) fill(i int) bool {
	s.desired.Canary++
	return s.placeOn(s.placer, i, s.moved[s.run.edit.Row(i).Node.ID], true)
}

// empty are the nodes that are to have an allocation and have none, with their ids.
func (s *systemGroup) empty() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i := range s.run.edit.Size() {
			row := s.run.edit.Row(i)
			if row != nil && s.byNode[row.Node.ID] == nil && s.suits(i, row.Node) && !yield(i, row.Node.ID) {
				return
			}
		}
	}
}

// replaceSome replaces the first n of those that must be replaced, and answers for how many there was capacity.
func (s *systemGroup) replaceSome(n int, canaries bool) (done int) {
	p := s.placer
	s.waiting += len(s.replace)
	s.desired.Ignore += uint64(len(s.replace) - n)
	for _, a := range s.replace[:n] {
		if canaries {
			s.desired.Canary++
		} else {
			s.desired.DestructiveUpdate++
		}
		p.vacate(a)
		if !s.placeOn(p, s.run.edit.Find(a.NodeID), a, canaries) {
			if _, leaves, _ := p.makeWay(p.newAlloc(&reconcile.Place{Name: s.name, Previous: a}), a); !leaves {
				p.unvacate(a)
				continue
			}
		}
		s.run.stop(a, reconcile.Updating, "")
		done++
	}
	return done
}

// explainNowhere says in a dry run why no node at all suits the group. It is no failure: nobody waits for a node.
func (s *systemGroup) explainNowhere() {
	if !s.run.in.Eval.AnnotatePlan || len(s.byNode) > 0 || s.run.out.Failed[s.group.Name] != nil {
		return
	}
	for i := range s.run.edit.Size() {
		if s.placer.fit[i].ok() {
			return
		}
	}
	s.run.out.Failed[s.group.Name] = s.placer.seen.metric()
}

// settled reports whether nothing is left to do and the group's part of the deployment is done.
func (s *systemGroup) settled() bool {
	return s.waiting+len(s.update)+s.members.Undecided+s.members.Unhealthy == 0 && s.roll.Done()
}

func (s *systemGroup) placeOn(p *placer, i int, prev *api.Allocation, canary bool) bool {
	r := s.run
	a := p.newAlloc(&reconcile.Place{Name: s.name, Previous: prev, Canary: canary})
	var ask *feasible.VolumeAsk
	if p.hasVolumes {
		ask = r.volumes.Ask(s.group, a)
	}
	if p.take(a, i, ask) || p.preemptOn(a, i, ask) {
		p.explainSystem(a, i)
		r.add(a)
		return true
	}
	s.refuse(p, i, ask)
	return false
}

// refuse counts a node without capacity, or whose volumes others have, as a failure; a node that the rules leave out is
// none.
func (s *systemGroup) refuse(p *placer, i int, ask *feasible.VolumeAsk) {
	row := s.run.edit.Row(i)
	if p.failed == nil {
		p.failed = p.seen.metric()
	}
	reason, full := p.refusal(row)
	waits := false // for the volumes, not for the node
	switch {
	case reason != "" && !full:
		filtered(p.failed, row.Node, reason, 1)
		return
	case reason == "" && ask != nil && ask.Refusal(row.Node) != "":
		filtered(p.failed, row.Node, ask.Refusal(row.Node), 1)
		if waits = ask.Impossible() != "" || ask.Taken(row.Node); !waits {
			return
		}
	case reason == "":
		exhausted(p.failed, row.Node, "network: dynamic port selection failed")
	default:
		exhausted(p.failed, row.Node, reason)
	}
	s.run.out.Failed[s.group.Name] = p.failed
	s.run.out.Queued[s.group.Name]++
	if !waits && (ask == nil || ask.Impossible() == "") {
		s.run.full(row.Node.ID, s.group.Name)
	}
}
