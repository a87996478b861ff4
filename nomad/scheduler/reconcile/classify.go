package reconcile

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// classify puts an allocation into the list of its class; the first rule that fits decides.
func (p *pass) classify(a *api.Allocation) {
	p.lookAt(a.Job)
	switch {
	case p.batch && p.done(a):
		p.hold(a)
	case a.ServerTerminal():
		if p.unfollowed(a) {
			p.waits = append(p.waits, a)
		}
	case p.batch && a.ClientTerminal() && p.job.older: // over
	case p.unwanted(a):
		p.end(a)
	case a.ClientStatus == api.AllocClientStatusFailed || p.cutShort(a):
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
	f := FateOf(a, n, p.group, p.in.Now)
	switch {
	case f.Lost != "":
		p.noteOlder(a)
		p.stop(a, f.Lost, api.AllocClientStatusLost)
		p.lost = append(p.lost, a)
		return
	case !f.Unknown && Deprived(a, n) != "":
		p.noteOlder(a)
		p.stop(a, deprived, "")
		p.lost = append(p.lost, a)
		return
	case !f.Unknown:
		p.hold(a)
		return
	}
	if am, news := Forgotten(a, f, p.comesBack(a)); news {
		p.res.Amend = append(p.res.Amend, am)
		if am.ClientStatus != "" {
			p.res.Desired.Disconnect++
		}
	}
	if f.Replace && !p.canary(a) {
		p.noteOlder(a)
		p.replaced = append(p.replaced, a)
		return
	}
	p.hold(a)
}

// comesBack reports whether an evaluation is still to look at the allocation again.
func (p *pass) comesBack(a *api.Allocation) bool {
	return a.FollowupEvalID != "" && a.FollowupEvalID != p.in.EvalID && p.in.Pending(a.FollowupEvalID)
}

// hold keeps an allocation.
func (p *pass) hold(a *api.Allocation) {
	r := row{a, Index(a.Name), seen{current: p.job.current, member: p.roll.Member(a)}}
	r.ok = a.ClientStatus == api.AllocClientStatusRunning && (!r.member || healthy(a))
	if p.canary(a) {
		p.canaries = append(p.canaries, r)
		return
	}
	p.noteOlder(a)
	p.away = p.away || len(a.AllocStates) > 0
	p.keep = append(p.keep, r)
}

func healthy(a *api.Allocation) bool {
	s := a.DeploymentStatus
	return s != nil && s.Healthy != nil && *s.Healthy
}

func (p *pass) noteOlder(a *api.Allocation) {
	if p.job.older && (p.older == nil || p.older.Version < a.Job.Version) {
		p.older = a.Job
	}
}

// standing is how a job stands to the wanted one.
type standing struct {
	job *api.Job
	// older: an older version, or an earlier job of that name. current: the wanted specification.
	older, current bool
}

// lookAt makes the job the one that the class of an allocation depends on. Allocations share their jobs.
func (p *pass) lookAt(j *api.Job) {
	if p.job.job == j {
		return
	}
	p.job = p.standing(j)
	if j != nil {
		p.ran = p.ran || j.Version == p.in.Job.Version && j.CreateIndex == p.in.Job.CreateIndex
	}
}

func (p *pass) standing(j *api.Job) standing {
	if j == nil {
		return standing{}
	}
	now := p.in.Job
	return standing{
		j, j.Version < now.Version || j.CreateIndex < now.CreateIndex,
		j.JobModifyIndex == now.JobModifyIndex && j.CreateIndex == now.CreateIndex,
	}
}

// isOlder reports whether the allocation is of an older version, or of an earlier job of that name.
func (p *pass) isOlder(a *api.Allocation) bool { return p.standing(a.Job).older }

// done reports whether a batch allocation of this version finished its work. The tasks of one that the servers
// stopped or evicted end without failing too.
func (p *pass) done(a *api.Allocation) bool {
	return !a.ServerTerminal() && Finished(a) && !p.isOlder(a)
}

// cutShort reports whether an allocation ended although it was to go on and nobody asked for its end: what follows
// it comes as after a failure, not at once and for ever.
func (p *pass) cutShort(a *api.Allocation) bool {
	return a.ClientStatus == api.AllocClientStatusComplete && !a.DesiredTransition.Migrate && (!p.batch || StoppedAlone(a))
}

func (p *pass) classifyFailed(a *api.Allocation) {
	switch {
	case a.NextAllocation != "": // over
	case p.job.older:
		p.noteOlder(a)
		p.failedOld = append(p.failedOld, a)
	default:
		p.retry(a)
	}
}

// retry decides whether a failed allocation is tried again now, later, or no more. Those of a running
// deployment wait until whoever watches it says so; those of a halted one stay as they are.
func (p *pass) retry(a *api.Allocation) {
	t := a.DesiredTransition
	waits := a.ClientStatus == api.AllocClientStatusFailed && p.roll.Running() != nil && !t.Reschedule && !t.ForceReschedule
	if p.roll.Member(a) && (p.roll.Halted() || waits) {
		p.hold(a)
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
		p.hold(a)
	case !at.After(p.in.Now.Add(time.Second)):
		p.failed = append(p.failed, a)
	default:
		if !p.comesBack(a) {
			p.res.Amend = append(p.res.Amend, Amend{Alloc: a, RescheduleAt: at})
			p.res.Desired.RescheduleLater++
		}
		p.later++
		p.hold(a)
	}
}
