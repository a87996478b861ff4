package reconcile

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// classify puts an allocation into the list of its class; the first rule that fits decides.
func (p *pass) classify(a *api.Allocation) {
	p.setVersion(a.Job)
	switch {
	case p.batch && p.done(a):
		p.keepAlloc(a)
	case a.ServerTerminal():
		if p.lacksSuccessor(a) {
			p.unreplaced = append(p.unreplaced, a)
		}
	case p.batch && a.ClientTerminal() && p.version.older: // over
	case p.staleCanary(a):
		p.stopUnwanted(a)
	case a.ClientStatus == api.AllocClientStatusFailed || p.endedUnexpectedly(a):
		p.classifyFailed(a)
	case a.ClientTerminal(): // over
	case a.DesiredTransition.Migrate && !p.isLost(a):
		p.noteOlder(a)
		p.migrate = append(p.migrate, row{Allocation: a, index: Index(a.Name)})
	default:
		p.classifyByNode(a)
	}
}

func (p *pass) classifyByNode(a *api.Allocation) {
	n := p.in.Node(a.NodeID)
	f := NodeLossOf(a, n, p.group, p.in.Now)
	switch {
	case f.Lost != "":
		p.noteOlder(a)
		p.stop(a, f.Lost, api.AllocClientStatusLost)
		p.lost = append(p.lost, a)
		return
	case !f.Unknown && VolumeLost(a, n) != "":
		p.noteOlder(a)
		p.stop(a, volumeLost, "")
		p.lost = append(p.lost, a)
		return
	case !f.Unknown:
		p.keepAlloc(a)
		return
	}
	if am, news := UnknownUpdate(a, f, p.hasFollowUp(a)); news {
		p.res.StatusUpdates = append(p.res.StatusUpdates, am)
		if am.ClientStatus != "" {
			p.res.Desired.Disconnect++
		}
	}
	if f.Replace && !p.canary(a) {
		p.noteOlder(a)
		p.replaced = append(p.replaced, a)
		return
	}
	p.keepAlloc(a)
}

// hasFollowUp reports whether an evaluation is still to look at the allocation again.
func (p *pass) hasFollowUp(a *api.Allocation) bool {
	return a.FollowupEvalID != "" && a.FollowupEvalID != p.in.EvalID && p.in.Pending(a.FollowupEvalID)
}

// keepAlloc keeps an allocation.
func (p *pass) keepAlloc(a *api.Allocation) {
	r := row{a, Index(a.Name), status{current: p.version.current, member: p.roll.Member(a)}}
	r.ok = a.ClientStatus == api.AllocClientStatusRunning && (!r.member || healthy(a))
	if p.canary(a) {
		p.canaries = append(p.canaries, r)
		return
	}
	p.noteOlder(a)
	p.wasUnknown = p.wasUnknown || len(a.AllocStates) > 0
	p.keep = append(p.keep, r)
}

func healthy(a *api.Allocation) bool {
	s := a.DeploymentStatus
	return s != nil && s.Healthy != nil && *s.Healthy
}

func (p *pass) noteOlder(a *api.Allocation) {
	if p.version.older && (p.older == nil || p.older.Version < a.Job.Version) {
		p.older = a.Job
	}
}

// versionState compares a job with the wanted one.
type versionState struct {
	job *api.Job
	// older: an older version, or an earlier job of that name. current: the wanted specification.
	older, current bool
}

// setVersion makes the job the one that the class of an allocation depends on. Allocations share their jobs.
func (p *pass) setVersion(j *api.Job) {
	if p.version.job == j {
		return
	}
	p.version = p.versionStateOf(j)
	if j != nil {
		p.ran = p.ran || j.Version == p.in.Job.Version && j.CreateIndex == p.in.Job.CreateIndex
	}
}

func (p *pass) versionStateOf(j *api.Job) versionState {
	if j == nil {
		return versionState{}
	}
	now := p.in.Job
	return versionState{
		j, j.Version < now.Version || j.CreateIndex < now.CreateIndex,
		j.JobModifyIndex == now.JobModifyIndex && j.CreateIndex == now.CreateIndex,
	}
}

// isOlder reports whether the allocation is of an older version, or of an earlier job of that name.
func (p *pass) isOlder(a *api.Allocation) bool { return p.versionStateOf(a.Job).older }

// done reports whether a batch allocation of this version finished its work. The tasks of one that the servers
// stopped or evicted end without failing too.
func (p *pass) done(a *api.Allocation) bool {
	return !a.ServerTerminal() && Finished(a) && !p.isOlder(a)
}

// endedUnexpectedly reports whether an allocation ended although it was to go on and nobody asked for its end: what follows
// it comes as after a failure, not at once and for ever.
func (p *pass) endedUnexpectedly(a *api.Allocation) bool {
	return a.ClientStatus == api.AllocClientStatusComplete && !a.DesiredTransition.Migrate && (!p.batch || StoppedByClient(a))
}

func (p *pass) classifyFailed(a *api.Allocation) {
	switch {
	case a.NextAllocation != "": // over
	case p.version.older:
		p.noteOlder(a)
		p.failedOld = append(p.failedOld, a)
	default:
		p.reschedule(a)
	}
}

// reschedule decides whether a failed allocation is tried again now, later, or no more. Those of a running
// deployment wait until whoever watches it says so; those of a halted one stay as they are.
func (p *pass) reschedule(a *api.Allocation) {
	t := a.DesiredTransition
	waits := a.ClientStatus == api.AllocClientStatusFailed && p.roll.Running() != nil && !t.Reschedule && !t.ForceReschedule
	if p.roll.Member(a) && (p.roll.Halted() || waits) {
		p.keepAlloc(a)
		return
	}
	due := a.FollowupEvalID != "" && a.FollowupEvalID == p.in.EvalID
	if t.ForceReschedule || due || t.Migrate && t.Reschedule {
		p.failed = append(p.failed, a)
		return
	}
	at, again := NextReschedule(a, p.group.ReschedulePolicy)
	switch {
	case !again:
		p.keepAlloc(a)
	case !at.After(p.in.Now.Add(time.Second)):
		p.failed = append(p.failed, a)
	default:
		if !p.hasFollowUp(a) {
			p.res.StatusUpdates = append(p.res.StatusUpdates, StatusUpdate{Alloc: a, RescheduleAt: at})
			p.res.Desired.RescheduleLater++
		}
		p.rescheduleLater++
		p.keepAlloc(a)
	}
}
