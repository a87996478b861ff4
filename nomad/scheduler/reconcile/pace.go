package reconcile

import (
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// paceDefault is the pause between the steps of a roll-out whose update block names none.
const paceDefault = 10 * time.Second

// updateOrReplace brings kept allocations of another version to this one.
func (p *pass) updateOrReplace() {
	var destructive []*api.Allocation
	unsettled := 0
	for _, a := range p.keep {
		switch {
		case a.Job != nil && a.Job.JobModifyIndex == p.in.Job.JobModifyIndex && a.Job.CreateIndex == p.in.Job.CreateIndex:
			if a.ClientStatus != api.AllocClientStatusRunning && !Succeeded(a) {
				unsettled++
			}
			p.res.Desired.Ignore++
		case a.Terminal():
			p.res.Desired.Ignore++
		case a.ClientStatus == api.AllocClientStatusUnknown:
			p.res.Desired.Ignore++
		case Destructive(a.Job, p.in.Job, p.group.Name) || !p.in.CanStay(a):
			destructive = append(destructive, a)
		default:
			p.res.Update = append(p.res.Update, a)
			p.res.Desired.InPlaceUpdate++
		}
	}
	slices.SortStableFunc(destructive, func(a, b *api.Allocation) int { return Index(a.Name) - Index(b.Name) })
	for i := range p.step(len(destructive), unsettled) {
		a := destructive[i]
		p.res.Place = append(p.res.Place, Place{Name: a.Name, Previous: a, Stop: &Stop{Alloc: a, Description: updating}})
		p.res.Desired.DestructiveUpdate++
	}
}

// step is how many of n destructive updates may begin now. When not all may, it asks to be continued.
func (p *pass) step(n, unsettled int) int {
	if p.batch {
		return n
	}
	now, again := Step(p.in.Job, p.group, n, unsettled, p.in.Now)
	p.res.Continue = again
	p.res.Desired.Ignore += uint64(n - now)
	return now
}

// Step is how many of n destructive updates of the group may begin, while unsettled allocations of the
// new version do not run yet, and when to ask again for the others; zero when there are none.
func Step(j *api.Job, g *api.TaskGroup, n, unsettled int, now time.Time) (int, time.Time) {
	u := g.Update
	if u == nil {
		u = j.Update
	}
	if n == 0 || u == nil || u.MaxParallel <= 0 {
		return n, time.Time{}
	}
	begin := min(n, max(0, u.MaxParallel-unsettled))
	if begin == n {
		return n, time.Time{}
	}
	return begin, now.Add(pause(u))
}

func pause(u *api.UpdateStrategy) time.Duration {
	if u.MinHealthyTime > 0 {
		return u.MinHealthyTime
	}
	return paceDefault
}
