package reconcile

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// Group compares and says what to do.
func Group(in Input) Result {
	p := &pass{in: in}
	var g *api.TaskGroup
	if in.Job != nil && !in.Job.Stop {
		g = in.Job.Group(in.Group)
	}
	if g == nil {
		p.stopAll()
		return p.res
	}
	p.group, p.batch = g, in.Job.Type == api.JobTypeBatch
	for _, a := range in.Allocs {
		p.classify(a)
	}
	p.reconnect()
	p.stopSurplus()
	p.updateOrReplace()
	p.placeAgain()
	p.fill()
	return p.res
}

// pass is one run over a group. Each list holds allocations of one class; see classify.
type pass struct {
	in    Input
	group *api.TaskGroup
	batch bool
	res   Result

	keep     []*api.Allocation // hold a name and count
	migrate  []*api.Allocation
	lost     []*api.Allocation
	failed   []*api.Allocation // to be placed again now
	replaced []*api.Allocation // unknown, with a replacement wanted
	placed   int               // placements that are not paired with a kept allocation
}

func (p *pass) stop(a *api.Allocation, why, client string) {
	p.res.Stop = append(p.res.Stop, Stop{Alloc: a, Description: why, ClientStatus: client})
	p.res.Desired.Stop++
}

func (p *pass) stopAll() {
	for _, a := range p.in.Allocs {
		switch {
		case a.ServerTerminal():
			p.res.Desired.Ignore++
		case a.ClientTerminal():
			p.res.Stop = append(p.res.Stop, Stop{Alloc: a, Description: notNeeded})
		case p.isLost(a):
			p.stop(a, notNeeded, api.AllocClientStatusLost)
		default:
			p.stop(a, notNeeded, "")
		}
	}
}

func (p *pass) isLost(a *api.Allocation) bool {
	n := p.in.Node(a.NodeID)
	return n == nil || n.Status == api.NodeStatusDown
}

// stopSurplus stops what is beyond the count: second bearers of a name, then the highest names.
func (p *pass) stopSurplus() {
	surplus := len(p.keep) + len(p.migrate) - p.group.Count
	if surplus <= 0 {
		return
	}
	for _, list := range []*[]*api.Allocation{&p.keep, &p.migrate} {
		sortForStop(*list)
	}
	drop := func(list *[]*api.Allocation, which func(*api.Allocation) bool) {
		*list = slices.DeleteFunc(*list, func(a *api.Allocation) bool {
			if surplus <= 0 || !which(a) {
				return false
			}
			surplus--
			p.stop(a, notNeeded, "")
			return true
		})
	}
	seen := map[string]bool{}
	twice := func(a *api.Allocation) bool { again := seen[a.Name]; seen[a.Name] = true; return again }
	beyond := func(a *api.Allocation) bool { return Index(a.Name) >= p.group.Count }
	any := func(*api.Allocation) bool { return true }
	drop(&p.migrate, beyond)
	drop(&p.keep, beyond)
	drop(&p.keep, twice)
	drop(&p.migrate, any)
	drop(&p.keep, any)
}

// sortForStop puts the highest names first, and under one name those that run last.
func sortForStop(list []*api.Allocation) {
	slices.SortStableFunc(list, func(a, b *api.Allocation) int {
		if d := Index(b.Name) - Index(a.Name); d != 0 {
			return d
		}
		return liveness(b) - liveness(a)
	})
}

func liveness(a *api.Allocation) int {
	switch a.ClientStatus {
	case api.AllocClientStatusRunning:
		return 2
	case api.AllocClientStatusPending:
		return 1
	}
	return 0
}

// room is how many more placements the count allows.
func (p *pass) room() int { return p.group.Count - len(p.keep) - p.placed }

// placeAgain follows up on what moved, failed or was lost, as far as the count goes.
func (p *pass) placeAgain() {
	for _, a := range p.migrate {
		p.res.Stop = append(p.res.Stop, Stop{Alloc: a, Description: migrating})
		p.res.Desired.Migrate++
		if !a.DesiredTransition.MigrateDisablePlacement && p.room() > 0 {
			p.place(Place{Name: a.Name, Previous: a})
		}
	}
	for _, a := range p.failed {
		s := Stop{Alloc: a, Description: rescheduled}
		if p.room() <= 0 {
			s.Description = notNeeded
			p.res.Stop = append(p.res.Stop, s)
			continue
		}
		p.place(Place{Name: a.Name, Previous: a, Failed: true, Stop: &s})
		p.res.Desired.RescheduleNow++
	}
	for _, a := range slices.Concat(p.lost, p.replaced) {
		if p.room() > 0 {
			p.place(Place{Name: a.Name, Previous: a})
		}
	}
}

func (p *pass) place(pl Place) {
	p.res.Place = append(p.res.Place, pl)
	p.placed++
}

// fill places new allocations under the lowest free names.
func (p *pass) fill() {
	names := newNames(p.in.Job.ID, p.group.Name)
	for _, a := range p.keep {
		names.use(a.Name)
	}
	for i := range p.res.Place {
		names.use(p.res.Place[i].Name)
	}
	for p.room() > 0 {
		p.place(Place{Name: names.next()})
		p.res.Desired.Place++
	}
}
