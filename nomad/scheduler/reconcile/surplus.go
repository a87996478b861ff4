package reconcile

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// stopSurplus stops second bearers of a name, and then what is beyond the count, the highest names first.
// What moves anyway goes before what stays; what its node needs stays too.
func (p *pass) stopSurplus() {
	p.stopDuplicates()
	surplus := len(p.keep) + p.migratingCount() - p.group.Count
	for _, r := range p.keep { // nobody goes for one that has come back to its node before that is there
		if r.index >= p.group.Count && !r.ok && p.needed(r.Allocation) {
			surplus--
		}
	}
	if surplus <= 0 {
		return
	}
	p.keep, p.migrate = byIndex(p.keep), byIndex(p.migrate)
	drop := func(list *[]row, which func(row) bool) {
		for i := len(*list) - 1; i >= 0 && surplus > 0; i-- {
			r := &(*list)[i]
			if !p.canary(r.Allocation) && which(*r) && !p.needed(r.Allocation) {
				surplus--
				p.stop(r.Allocation, NotNeeded, "")
				r.Allocation = nil
			}
		}
		*list = slices.DeleteFunc(*list, func(r row) bool { return r.Allocation == nil })
	}
	beyond := func(r row) bool { return r.index >= p.group.Count }
	any := func(row) bool { return true }
	drop(&p.migrate, beyond)
	drop(&p.keep, beyond)
	drop(&p.migrate, any)
	drop(&p.keep, any)
}

// needed reports whether the allocation's node cannot do without it.
func (p *pass) needed(a *api.Allocation) bool { return p.in.Needed != nil && p.in.Needed(a) }

// sharesNode reports whether another allocation that is kept is on the node of this one.
func (p *pass) sharesNode(a *api.Allocation) bool {
	return slices.ContainsFunc(p.keep, func(r row) bool { return r.Allocation != a && r.NodeID == a.NodeID })
}

// migratingCount counts what migrates and holds a name.
func (p *pass) migratingCount() int {
	n := len(p.migrate)
	for _, r := range p.migrate {
		if p.canary(r.Allocation) {
			n--
		}
	}
	return n
}

// stopDuplicates keeps one allocation under each name: of the newest version, and of those the one that runs, or has done its work.
// A promoted canary has the name of the one that it replaces. What its node needs stays, to be updated there, unless the
// other one is on that node too.
func (p *pass) stopDuplicates() {
	var seen indexes
	twins := false
	for _, r := range p.keep {
		twins = twins || seen.has(r.index)
		seen.add(r.index)
	}
	if twins {
		slices.SortStableFunc(p.keep, func(a, b row) int {
			if d := a.index - b.index; d != 0 {
				return d
			}
			return p.better(b.Allocation, a.Allocation)
		})
		last, served := -1, []string(nil)
		p.keep = slices.DeleteFunc(p.keep, func(r row) bool {
			if r.index < 0 || r.index != last {
				last, served = r.index, []string{r.NodeID}
				return false
			}
			if !r.Terminal() && !slices.Contains(served, r.NodeID) && p.needed(r.Allocation) {
				served = append(served, r.NodeID)
				return false
			}
			p.stopLive(r.Allocation)
			return true
		})
	}
	if len(p.migrate) > 0 {
		p.migrate = slices.DeleteFunc(p.migrate, func(r row) bool {
			if p.canary(r.Allocation) || !seen.has(r.index) {
				return false
			}
			p.stopLive(r.Allocation)
			return true
		})
	}
}

func (p *pass) stopLive(a *api.Allocation) {
	if !a.Terminal() {
		p.stop(a, NotNeeded, "")
	}
}

// better is above 0 when a is to be kept before b.
func (p *pass) better(a, b *api.Allocation) int {
	if old := p.isOlder(a); old != p.isOlder(b) {
		if old {
			return -1
		}
		return 1
	}
	return p.liveness(a) - p.liveness(b)
}

func (p *pass) liveness(a *api.Allocation) int {
	switch {
	case p.batch && p.done(a):
		return 3
	case a.ClientStatus == api.AllocClientStatusRunning:
		return 2
	case a.ClientStatus == api.AllocClientStatusPending:
		return 1
	}
	return 0
}
