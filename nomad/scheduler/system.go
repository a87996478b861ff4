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
		r.resetQueued(name)
		s := &systemGroup{
			run: r, group: g, desired: &api.DesiredUpdates{}, byNode: map[string]*api.Allocation{}, hadAlloc: map[string]bool{}, hadCanary: map[string]bool{}, migrating: map[string]*api.Allocation{}, ended: map[string][]*api.Allocation{}, outdatedWork: map[string]bool{},
			roll: reconcile.RolloutOf(g, r.current), name: reconcile.Name(r.job.ID, name, 0),
		}
		r.out.Plan.Annotations.DesiredTGUpdates[name] = s.desired
		s.review()
		s.rollOut()
		s.place()
		settled = settled && s.settled()
	}
	r.finishDeployment(settled)
	r.out.Missing = r.volumes.Missing()
}

func (r *run) stopGroup(name string) {
	res := reconcile.Group(reconcile.Input{
		Group: name, Allocs: r.allocs[name], Node: r.node, Now: r.in.Now,
	})
	for _, s := range res.Stop {
		r.stop(s.Alloc, s.Description, s.ClientStatus)
	}
	r.resetQueued(name)
	desired := res.Desired
	r.out.Plan.Annotations.DesiredTGUpdates[name] = &desired
}

// systemGroup is one group of a system or sysbatch job.
type systemGroup struct {
	run     *run
	group   *api.TaskGroup
	desired *api.DesiredUpdates
	// name is the name of all allocations of the group.
	name string
	// byNode are the allocations that stay, by node. Those also in replace are to be replaced, those in update are
	// updated in place.
	byNode map[string]*api.Allocation
	// hadAlloc are the nodes that ever ran an allocation of the group.
	hadAlloc map[string]bool
	// hadCanary are the nodes that ran a canary of the deployment.
	hadCanary map[string]bool
	// migrating are the allocations that are to migrate, by node. Their successors name them as previous allocations: the plan
	// omits the successor when the work finished in the meantime.
	migrating map[string]*api.Allocation
	replace   []*api.Allocation
	update    []*api.Allocation
	static    *feasible.Static
	placer    *placer
	// roll is the group's part of the deployment; members and canaries count its allocations. ran reports whether
	// this version has allocations.
	roll     reconcile.Rollout
	members  reconcile.Health
	canaries int
	ran      bool
	// waiting counts nodes with unfinished work: placed on now, backing off, or not allowed yet.
	waiting int
	// ended are the allocations of this version that failed or ended unexpectedly, per node, newest first.
	ended map[string][]*api.Allocation
	// outdatedWork are nodes whose newest finished allocation did different work than the job specifies.
	outdatedWork map[string]bool
}

// A system job that failed or ended on a node is retried there after retryFirst; each further failure doubles the delay.
const (
	retryFirst = 5 * time.Second
	retryMax   = time.Hour
)

// review classifies the existing allocations.
func (s *systemGroup) review() {
	s.static = feasible.NewStatic(s.run.job, s.group)
	allocs := slices.Clone(s.run.allocs[s.group.Name])
	slices.SortStableFunc(allocs, func(a, b *api.Allocation) int { return int(b.CreateIndex) - int(a.CreateIndex) })
	for _, a := range allocs {
		s.reviewOne(a)
	}
}

func (s *systemGroup) reviewOne(a *api.Allocation) {
	s.ran, s.hadAlloc[a.NodeID] = s.ran || s.current(a), true
	if s.roll.Member(a) && a.DeploymentStatus != nil && a.DeploymentStatus.Canary {
		s.hadCanary[a.NodeID] = true
	}
	if a.ServerTerminal() {
		return
	}
	if a.ClientTerminal() {
		switch {
		case s.finished(a) && s.byNode[a.NodeID] == nil:
			s.byNode[a.NodeID] = a
		case s.isSysbatch() && reconcile.Finished(a): // earlier work is older still
			s.outdatedWork[a.NodeID] = true
		case s.current(a) && !a.DesiredTransition.Migrate:
			s.ended[a.NodeID] = append(s.ended[a.NodeID], a)
		}
		return
	}
	n := s.run.node(a.NodeID)
	fate := reconcile.NodeLossOf(a, n, s.group, s.run.in.Now)
	switch {
	case fate.Lost != "":
		s.stop(a, fate.Lost, api.AllocClientStatusLost)
	case fate.Unknown: // no other node can replace it
		s.byNode[a.NodeID] = a
		if m, news := reconcile.UnknownUpdate(a, fate, s.run.hasFollowUp(a)); news {
			s.run.updateStatus(m)
			if m.ClientStatus != "" {
				s.desired.Disconnect++
			}
		}
	case reconcile.VolumeLost(a, n) != "":
		s.stop(a, reconcile.VolumeLost(a, n), "")
	case a.ClientStatus == api.AllocClientStatusUnknown && s.byNode[a.NodeID] == nil: // its node is about to report it
		s.byNode[a.NodeID] = a
		s.desired.Ignore++
	case a.DesiredTransition.Migrate:
		s.stop(a, reconcile.Migrating, "")
		s.desired.Migrate++
		s.migrating[a.NodeID] = a
	case s.byNode[a.NodeID] != nil || !s.inPoolAndDatacenter(n) && !s.needsPlugin(n):
		s.stop(a, reconcile.NotNeeded, "")
	default:
		s.byNode[a.NodeID] = a
		s.updateAlloc(a, n)
	}
}

func (s *systemGroup) isSysbatch() bool { return s.run.kind() == api.JobTypeSysbatch }

// finished reports whether a sysbatch allocation did the work that the job specifies. An older version may specify the
// same work.
func (s *systemGroup) finished(a *api.Allocation) bool {
	return s.isSysbatch() && reconcile.Finished(a) && !s.outdatedWork[a.NodeID] && reconcile.SameWork(a, s.run.job)
}

func (s *systemGroup) current(a *api.Allocation) bool {
	return a.Job != nil && a.Job.Version == s.run.job.Version && a.Job.CreateIndex == s.run.job.CreateIndex
}

// backsOff reports whether the job failed or ended on the node and its retry delay has not passed. A follow-up evaluation
// retries it.
func (s *systemGroup) backsOff(node string) bool {
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
	if !s.run.hasFollowUp(last) {
		s.run.updateStatus(reconcile.StatusUpdate{Alloc: last, RescheduleAt: due})
		s.desired.RescheduleLater++
	}
	return true
}

// updateAlloc decides how a running allocation changes to the job's version.
func (s *systemGroup) updateAlloc(a *api.Allocation, n *api.Node) {
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
	if reason, _ := s.static.Refusal(n); reason != "" || !s.inPoolAndDatacenter(n) {
		if s.needsPlugin(n) { // unchanged until its volumes are detached
			s.desired.Ignore++
			return
		}
		delete(s.byNode, a.NodeID)
		s.stop(a, reconcile.NotNeeded, "")
		return
	}
	if reconcile.Destructive(a.Job, j, s.group.Name) {
		if !feasible.AcceptsGroup(s.run.in.View, n, j, s.group) { // the node accepts nothing new, and the old version is not wanted
			delete(s.byNode, a.NodeID)
			s.stop(a, reconcile.NotNeeded, "")
			return
		}
		s.replace = append(s.replace, a)
		return
	}
	s.update = append(s.update, a)
}

// inPoolAndDatacenter reports whether the node is in the job's pool and datacenters.
func (s *systemGroup) inPoolAndDatacenter(n *api.Node) bool {
	return s.static.InPool(n) && s.static.InDatacenter(n)
}

// needsPlugin reports whether volumes on the node need the plugin that the group runs.
func (s *systemGroup) needsPlugin(n *api.Node) bool {
	return feasible.HasPluginVolumes(s.run.in.View, n, s.group)
}

func (s *systemGroup) stop(a *api.Allocation, why, client string) {
	s.desired.Stop++
	s.run.stop(a, why, client)
}

// rollOut creates a deployment or updates its total to the number of nodes, and updates in place.
func (s *systemGroup) rollOut() {
	s.placer = newPlacer(s.run, s.group)
	total, name := s.candidates(), s.group.Name
	switch now := s.roll.Running(); {
	case s.run.kind() == api.JobTypeSysbatch:
	case s.roll.Begins(total, s.ran, len(s.update)+len(s.replace) > 0):
		s.run.addGroup(name, s.roll.State(total, s.roll.CanaryShare(len(s.replace))))
		s.roll = reconcile.RolloutOf(s.group, s.run.current)
	case now != nil && (now.DesiredTotal != total || s.roll.Unpromoted() && now.DesiredCanaries > max(1, total)):
		changed := *now
		changed.DesiredTotal = total
		if s.roll.Unpromoted() { // there may be fewer nodes for canaries than before
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

// candidates counts the nodes with capacity or an allocation. It omits allocations that already had this version before
// the deployment.
func (s *systemGroup) candidates() int {
	n := 0
	for i := range s.run.edit.Size() {
		row := s.run.edit.Row(i)
		if row == nil {
			continue
		}
		switch a := s.byNode[row.Node.ID]; {
		case a == nil:
			if _, full := s.placer.refusal(row); !full && s.wanted(i, row.Node) {
				n++
			}
		case s.roll.Member(a) && s.wanted(i, row.Node), !s.current(a) && s.allows(i, row.Node): // unchanged allocations are not part of the roll-out
			n++
		}
	}
	return n
}

// allows reports whether the rules allow an allocation on the node: the node accepts placements or needs the group's
// plugin.
func (s *systemGroup) allows(i int, n *api.Node) bool {
	if s.placer.ranks[i].ok() || !feasible.AcceptsPlugin(s.run.in.View, n, s.run.job, s.group) {
		return s.placer.ranks[i].ok()
	}
	reason, _ := s.static.Refusal(n)
	return reason == "" && s.inPoolAndDatacenter(n)
}

// wanted reports whether a node without an allocation is to have one: the rules allow it, or the node no longer matches
// the job and needs its plugin.
func (s *systemGroup) wanted(i int, n *api.Node) bool {
	return s.allows(i, n) || s.run.kind() == api.JobTypeSystem && feasible.MissesPlugin(s.run.in.View, n, s.run.job, s.group, s.hadAlloc[n.ID])
}

// place replaces outdated allocations and places on nodes without one. Until canaries are promoted, it places only
// canaries.
func (s *systemGroup) place() {
	if s.roll.Unpromoted() {
		s.placeCanaries()
	} else {
		s.replaceSome(s.roll.Limit(len(s.replace), s.members, 0), false)
		s.run.growPlan(s.run.edit.Size() - len(s.byNode))
		for i, node := range s.emptyNodes() {
			if s.backsOff(node) {
				s.waiting++
				continue
			}
			s.desired.Place++
			if s.placeOn(s.placer, i, s.migrating[node], false) {
				s.waiting++
			}
		}
	}
	s.explainNoNode()
}

// placeCanaries places the missing canaries: first on nodes that had one, so that no further node is updated; then in
// place of older allocations; then on nodes without an allocation. A failed canary is retried on its node after a delay.
func (s *systemGroup) placeCanaries() {
	missing := max(0, s.roll.Canaries()-s.canaries)
	if s.roll.Halted() {
		missing = 0
	}
	var others []int
	for i, node := range s.emptyNodes() {
		s.waiting++
		switch {
		case !s.hadCanary[node]:
			others = append(others, i)
		case missing == 0:
		case s.backsOff(node):
			missing--
		case s.placeCanary(i):
			missing--
		}
	}
	missing -= s.replaceSome(min(missing, len(s.replace)), true)
	for _, i := range others {
		if missing > 0 && !s.backsOff(s.run.edit.Row(i).Node.ID) && s.placeCanary(i) {
			missing--
		}
	}
}

// placeCanary places a canary on a node without an allocation.
func (s *systemGroup) placeCanary(i int) bool {
	s.desired.Canary++
	return s.placeOn(s.placer, i, s.migrating[s.run.edit.Row(i).Node.ID], true)
}

// emptyNodes returns the nodes that are to have an allocation and have none, with their IDs.
func (s *systemGroup) emptyNodes() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i := range s.run.edit.Size() {
			row := s.run.edit.Row(i)
			if row != nil && s.byNode[row.Node.ID] == nil && s.wanted(i, row.Node) && !yield(i, row.Node.ID) {
				return
			}
		}
	}
}

// replaceSome replaces the first n outdated allocations and returns for how many there was capacity.
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
			if _, leaves, _ := p.placeAfterOutdated(p.newAlloc(&reconcile.Place{Name: s.name, Previous: a}), a); !leaves {
				p.unvacate(a)
				continue
			}
		}
		s.run.stop(a, reconcile.Updating, "")
		done++
	}
	return done
}

// explainNoNode records in a dry run why no node matches the group. It is not a failure: no evaluation waits for a node.
func (s *systemGroup) explainNoNode() {
	if !s.run.in.Eval.AnnotatePlan || len(s.byNode) > 0 || s.run.out.Failed[s.group.Name] != nil {
		return
	}
	for i := range s.run.edit.Size() {
		if s.placer.ranks[i].ok() {
			return
		}
	}
	s.run.out.Failed[s.group.Name] = s.placer.counts.metric()
}

// settled reports whether no work is left and the group's part of the deployment is complete.
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
	s.recordRefusal(p, i, ask)
	return false
}

// recordRefusal counts a node without capacity, or whose volumes other allocations use, as a failure. A node that the
// rules exclude is not a failure.
func (s *systemGroup) recordRefusal(p *placer, i int, ask *feasible.VolumeAsk) {
	row := s.run.edit.Row(i)
	if p.failed == nil {
		p.failed = p.counts.metric()
	}
	if p.recordQuota(p.failed) {
		s.run.out.Queued[s.group.Name]++
		return
	}
	reason, full := p.refusal(row)
	waits := false // for the volumes, not for the node
	switch {
	case reason != "" && !full:
		countFiltered(p.failed, row.Node, reason, 1)
		return
	case reason == "" && ask != nil && ask.Refusal(row.Node) != "":
		countFiltered(p.failed, row.Node, ask.Refusal(row.Node), 1)
		if waits = ask.Impossible() != "" || ask.InUse(row.Node); !waits {
			return
		}
	case reason == "":
		countExhausted(p.failed, row.Node, "network: dynamic port selection failed")
	default:
		countExhausted(p.failed, row.Node, reason)
	}
	s.run.out.Failed[s.group.Name] = p.failed
	s.run.out.Queued[s.group.Name]++
	if !waits && (ask == nil || ask.Impossible() == "") {
		s.run.addFullNode(row.Node.ID, s.group.Name)
	}
}
