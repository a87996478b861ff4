package reconcile

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// unfollowed reports whether an allocation that the servers stopped was to have a successor, which found no place.
func (p *pass) unfollowed(a *api.Allocation) bool {
	switch {
	case a.NextAllocation != "" || a.DeploymentStatus != nil && a.DeploymentStatus.Canary:
		return false
	case a.DesiredDescription != Migrating && a.DesiredDescription != lost && a.DesiredDescription != nodeGone && a.DesiredDescription != deprived:
		return false
	}
	i := Index(a.Name)
	return a.Job != nil && a.Job.CreateIndex == p.in.Job.CreateIndex && i >= 0 && i < p.group.Count
}

// recall leaves of those that wait for a successor the last bearers of their names. Canaries, which may have the same, are
// beside them.
func (p *pass) recall() {
	if len(p.waits) == 0 {
		return
	}
	last := make(map[string]*api.Allocation, len(p.waits))
	for _, a := range p.waits {
		last[a.Name] = a
	}
	for _, a := range p.in.Allocs {
		if known := last[a.Name]; known != nil && known != a && !p.canary(a) && (!a.Terminal() || a.CreateIndex > known.CreateIndex) {
			last[a.Name] = a
		}
	}
	p.waits = slices.DeleteFunc(p.waits, func(a *api.Allocation) bool { return last[a.Name] != a })
	slices.SortStableFunc(p.waits, func(a, b *api.Allocation) int { return Index(a.Name) - Index(b.Name) })
	for _, a := range p.waits {
		p.lookAt(a.Job)
		p.noteOlder(a)
	}
}
