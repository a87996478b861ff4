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
		p.classifyByNode(a)
	}
}

func (p *pass) classifyByNode(a *api.Allocation) {
	n := p.in.Node(a.NodeID)
	switch {
	case n == nil:
		p.lose(a, nodeGone)
	case n.Status == api.NodeStatusDown && !replacesLost(p.group):
		p.forget(a, false)
	case n.Status == api.NodeStatusDown:
		p.lose(a, lost)
	case n.Status == api.NodeStatusDisconnected:
		p.classifyDisconnected(a)
	default:
		p.keep = append(p.keep, a)
	}
}

// replacesLost reports whether allocations of the group are replaced when their node is lost.
func replacesLost(g *api.TaskGroup) bool {
	return !g.PreventRescheduleOnLost && (g.Disconnect == nil || g.Disconnect.Replace || g.Disconnect.LostAfter == 0)
}

func lostAfter(g *api.TaskGroup) time.Duration {
	if g.Disconnect != nil {
		return g.Disconnect.LostAfter
	}
	return g.MaxClientDisconnect
}

func (p *pass) classifyDisconnected(a *api.Allocation) {
	after := lostAfter(p.group)
	if after == 0 || a.ClientStatus == api.AllocClientStatusPending {
		p.lose(a, lost)
		return
	}
	if since := unknownSince(a); !since.IsZero() && !p.in.Now.Before(since.Add(after)) {
		p.lose(a, lost)
		return
	}
	p.forget(a, p.group.Disconnect == nil || p.group.Disconnect.Replace)
}

// unknownSince is when the allocation's node was last found disconnected; zero when it was not.
func unknownSince(a *api.Allocation) time.Time {
	if a.ClientStatus != api.AllocClientStatusUnknown {
		return time.Time{}
	}
	var t time.Time
	for _, s := range a.AllocStates {
		if s.Value == api.AllocClientStatusUnknown {
			t = s.Time
		}
	}
	return t
}

// lose gives the allocation up for good.
func (p *pass) lose(a *api.Allocation, why string) {
	p.stop(a, why, api.AllocClientStatusLost)
	p.lost = append(p.lost, a)
}

// forget keeps the allocation as unknown until its node is back or its time is over.
func (p *pass) forget(a *api.Allocation, replace bool) {
	if a.ClientStatus != api.AllocClientStatusUnknown {
		am := Amend{Alloc: a, ClientStatus: api.AllocClientStatusUnknown, Description: unknown}
		if after := lostAfter(p.group); after > 0 {
			am.RescheduleAt = p.in.Now.Add(after)
		}
		p.res.Amend = append(p.res.Amend, am)
		p.res.Desired.Disconnect++
	}
	if replace {
		p.replaced = append(p.replaced, a)
		return
	}
	p.keep = append(p.keep, a)
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
