package reconcile

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// lacksSuccessor reports whether an allocation that the servers stopped was to have a successor, which found no place.
func (p *pass) lacksSuccessor(a *api.Allocation) bool {
	switch {
	case a.NextAllocation != "" || a.DeploymentStatus != nil && a.DeploymentStatus.Canary:
		return false
	case a.DesiredDescription != Migrating && a.DesiredDescription != lost && a.DesiredDescription != nodeGone && a.DesiredDescription != volumeLost:
		return false
	}
	i := Index(a.Name)
	return a.Job != nil && a.Job.CreateIndex == p.in.Job.CreateIndex && i >= 0 && i < p.group.Count
}

// pruneUnreplaced leaves of those that wait for a successor the last bearers of their names. Canaries, which may have the same, are
// beside them.
func (p *pass) pruneUnreplaced() {
	if len(p.unreplaced) == 0 {
		return
	}
	last := make(map[string]*api.Allocation, len(p.unreplaced))
	for _, a := range p.unreplaced {
		last[a.Name] = a
	}
	for _, a := range p.in.Allocs {
		if known := last[a.Name]; known != nil && known != a && !p.canary(a) && (!a.Terminal() || a.CreateIndex > known.CreateIndex) {
			last[a.Name] = a
		}
	}
	p.unreplaced = slices.DeleteFunc(p.unreplaced, func(a *api.Allocation) bool { return last[a.Name] != a })
	slices.SortStableFunc(p.unreplaced, func(a, b *api.Allocation) int { return Index(a.Name) - Index(b.Name) })
	for _, a := range p.unreplaced {
		p.setVersion(a.Job)
		p.noteOlder(a)
	}
}
