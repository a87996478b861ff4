package reconcile

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// classify puts an allocation into the list of its class; the first rule that fits decides.
func (p *pass) classify(a *api.Allocation) {
	switch {
	case p.batch && p.done(a):
		p.keep = append(p.keep, a)
	case a.ServerTerminal() || p.batch && a.ClientTerminal() && p.older(a):
		p.res.Desired.Ignore++
	case a.ClientStatus == api.AllocClientStatusFailed:
		p.classifyFailed(a)
	case a.ClientTerminal():
		p.res.Desired.Ignore++
	case a.DesiredTransition.Migrate && !p.isLost(a):
		p.migrate = append(p.migrate, a)
	default:
		p.classifyByNode(a, FateOf(a, p.in.Node(a.NodeID), p.group, p.in.Now))
	}
}

// older reports whether the allocation is of an older version, or of an earlier job of that name.
func (p *pass) older(a *api.Allocation) bool {
	return a.Job != nil && (a.Job.Version < p.in.Job.Version || a.Job.CreateIndex < p.in.Job.CreateIndex)
}

// done reports whether a batch allocation of this version finished its work.
func (p *pass) done(a *api.Allocation) bool {
	return a.ClientStatus == api.AllocClientStatusComplete && Succeeded(a) && !p.older(a)
}

// Succeeded reports whether all tasks ended without failing.
func Succeeded(a *api.Allocation) bool {
	if a.ClientStatus != api.AllocClientStatusComplete {
		return false
	}
	for _, t := range a.TaskStates {
		if t.State != api.TaskStateDead || t.Failed {
			return false
		}
	}
	return true
}

// classifyFailed decides whether a failed allocation is tried again now, later, or no more.
func (p *pass) classifyFailed(a *api.Allocation) {
	if a.NextAllocation != "" {
		p.res.Desired.Ignore++
		return
	}
	if p.older(a) {
		// A new version deserves a fresh start.
		p.stop(a, updating, "")
		return
	}
	due := a.FollowupEvalID != "" && a.FollowupEvalID == p.in.EvalID
	if a.DesiredTransition.ForceReschedule || due {
		p.failed = append(p.failed, a)
		return
	}
	at, again := NextReschedule(a, p.group.ReschedulePolicy)
	switch {
	case !again:
		p.keep = append(p.keep, a)
	case !at.After(p.in.Now.Add(time.Second)):
		p.failed = append(p.failed, a)
	default:
		if a.FollowupEvalID == "" || !p.in.Pending(a.FollowupEvalID) {
			p.res.Amend = append(p.res.Amend, Amend{Alloc: a, RescheduleAt: at})
			p.res.Desired.RescheduleLater++
		}
		p.keep = append(p.keep, a)
	}
}
