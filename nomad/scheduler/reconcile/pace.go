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
	var s Settling
	for _, a := range p.keep {
		switch {
		case a.Job != nil && a.Job.JobModifyIndex == p.in.Job.JobModifyIndex && a.Job.CreateIndex == p.in.Job.CreateIndex:
			s.Add(a)
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
	for i := range p.step(len(destructive), s) {
		a := destructive[i]
		p.res.Place = append(p.res.Place, Place{Name: a.Name, Previous: a, Stop: &Stop{Alloc: a, Description: updating}})
		p.res.Desired.DestructiveUpdate++
	}
}

// step is how many of n destructive updates may begin now. When not all may, it asks to be continued.
func (p *pass) step(n int, s Settling) int {
	if p.batch {
		return n
	}
	now, again := Step(p.in.Job, p.group, n, s, p.in.Now)
	p.res.Continue = again
	p.res.Desired.Ignore += uint64(n - now)
	return now
}

// Settling counts the allocations of the new version that do not run: those that will, and those that failed.
type Settling struct{ Pending, Failed int }

// Add counts an allocation of the new version.
func (s *Settling) Add(a *api.Allocation) {
	switch {
	case a.ClientStatus == api.AllocClientStatusPending:
		s.Pending++
	case a.ClientStatus != api.AllocClientStatusRunning && !Succeeded(a):
		s.Failed++
	}
}

// Step is how many of n destructive updates of the group may begin, and when to ask again for the
// others; zero when there are none, or when only failed allocations are in the way: what becomes of them
// brings its own evaluation.
func Step(j *api.Job, g *api.TaskGroup, n int, s Settling, now time.Time) (int, time.Time) {
	u := g.Update
	if u == nil {
		u = j.Update
	}
	if n == 0 || u == nil || u.MaxParallel <= 0 {
		return n, time.Time{}
	}
	begin := min(n, max(0, u.MaxParallel-s.Pending-s.Failed))
	if begin == n || begin == 0 && s.Pending == 0 {
		return begin, time.Time{}
	}
	return begin, now.Add(pause(u))
}

func pause(u *api.UpdateStrategy) time.Duration {
	if u.MinHealthyTime > 0 {
		return u.MinHealthyTime
	}
	return paceDefault
}
