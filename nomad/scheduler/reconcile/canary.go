package reconcile

import (
	"github.com/open-nomad/open-nomad/api"
)

// canary reports whether the allocation tries this version out and is not promoted yet.
func (p *pass) canary(a *api.Allocation) bool {
	s := a.DeploymentStatus
	return s != nil && s.Canary && p.roll.Member(a) && !p.roll.Promoted()
}

// staleCanary reports whether the allocation is a canary that was never promoted: of another deployment, or
// of one that failed.
func (p *pass) staleCanary(a *api.Allocation) bool {
	if a.DeploymentStatus == nil || !a.DeploymentStatus.Canary {
		return false
	}
	if p.roll.Member(a) {
		return p.roll.failed() && !p.roll.Promoted()
	}
	for _, d := range p.in.Deployments {
		if d.ID == a.DeploymentID {
			s := d.TaskGroups[p.group.Name]
			return s != nil && !s.Promoted
		}
	}
	return false
}

// startCanaries finds out whether canaries come before everything else, and what that means for failed
// allocations of older versions: they are tried again as they were; otherwise they give way to new ones.
func (p *pass) startCanaries() {
	p.unpromoted = p.roll.Unpromoted()
	if u := p.roll.update; !p.unpromoted && u != nil && u.Canary > 0 && p.roll.state == nil && !p.roll.Halted() {
		for _, r := range p.keep {
			if !r.current && !r.Terminal() && p.mustReplace(r) {
				p.unpromoted = true
				break
			}
		}
	}
	for _, a := range p.failedOld {
		if p.unpromoted || p.roll.Halted() {
			p.setVersion(a.Job)
			p.reschedule(a)
		} else {
			p.stop(a, Updating, "")
		}
	}
}

// placeCanaries places what is missing of the canaries, under the names of those that they may replace.
func (p *pass) placeCanaries() {
	want := 0
	switch {
	case p.roll.Unpromoted():
		want = p.roll.state.DesiredCanaries
	case p.unpromoted:
		want = p.roll.update.Canary
	}
	var used indexes
	have := func(index int) {
		used.add(index)
		want--
	}
	for _, r := range p.canaries {
		have(r.index)
	}
	for _, r := range p.migrate {
		if p.canary(r.Allocation) {
			have(r.index)
		}
	}
	for _, a := range p.failed {
		if p.canary(a) {
			have(Index(a.Name))
		}
	}
	p.missingCanaries = max(0, want)
	if want <= 0 || p.roll.Halted() {
		return
	}
	place := func(index int) {
		have(index)
		p.place(Place{Name: Name(p.in.Job.ID, p.group.Name, index), Canary: true})
		p.res.Desired.Canary++
	}
	for _, r := range byIndex(p.destructive) {
		if want > 0 && r.index >= 0 && !used.has(r.index) {
			place(r.index)
		}
	}
	for _, r := range p.keep {
		used.add(r.index)
	}
	for want > 0 {
		place(used.next())
	}
}
