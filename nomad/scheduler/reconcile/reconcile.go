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
	if p.group, p.batch = g, in.Job.Type == api.JobTypeBatch; !p.batch {
		p.roll = RolloutOf(g, in.Current)
	}
	p.keep = make([]row, 0, len(in.Allocs))
	for _, a := range in.Allocs {
		p.classify(a)
	}
	p.pruneUnreplaced()
	p.reconnect()
	p.startCanaries()
	p.stopSurplus()
	p.splitByVersion()
	p.placeCanaries()
	p.placeSuccessors()
	p.placeMissing()
	p.replace()
	p.finish()
	return p.res
}

// pass is one run over a group. Each list holds allocations of one class; see classify.
type pass struct {
	in    Input
	group *api.TaskGroup
	batch bool
	roll  Rollout
	res   Result

	keep       []row             // hold a name and count
	canaries   []row             // of the current deployment and not promoted; they count on their own
	migrate    []row             // canaries too
	lost       []*api.Allocation // canaries too
	failed     []*api.Allocation // to be placed again now; canaries too
	failedOld  []*api.Allocation // of older versions
	replaced   []*api.Allocation // unknown, with a replacement wanted
	unreplaced []*api.Allocation // moved or lost before, without a replacement yet

	// version is what the allocation being classified is of.
	version versionState
	// wasUnknown says that a kept allocation was out of sight once.
	wasUnknown bool
	// unpromoted says that canaries of this version wait for their promotion, or are to be placed.
	unpromoted bool
	// older is the newest older version that runs here; it stays the wanted one while canaries are unpromoted.
	older *api.Job
	// ran says that there are allocations of this version.
	ran          bool
	destructive  []row
	differs      map[version]bool
	lastCompared comparison
	members      Health
	// placed counts placements that are not paired with a kept allocation.
	placed int
	// rescheduleLater counts failed allocations that will be placed again some time; waiting the canaries that are missing.
	rescheduleLater, missingCanaries int
	// missing is how far the kept allocations are below the count.
	missing int
}

func (p *pass) stop(a *api.Allocation, why, client string) {
	p.res.Stop = append(p.res.Stop, Stop{Alloc: a, Description: why, ClientStatus: client})
	p.res.Desired.Stop++
}

func (p *pass) stopAll() {
	p.res.Stop = make([]Stop, 0, len(p.in.Allocs))
	for _, a := range p.in.Allocs {
		if !a.ServerTerminal() {
			p.stopUnwanted(a)
		}
	}
}

// stopUnwanted stops an allocation that its job does not need.
func (p *pass) stopUnwanted(a *api.Allocation) {
	switch {
	case a.ClientTerminal():
		p.res.Stop = append(p.res.Stop, Stop{Alloc: a, Description: NotNeeded})
	case p.isLost(a):
		p.stop(a, NotNeeded, api.AllocClientStatusLost)
	default:
		p.stop(a, NotNeeded, "")
	}
}

func (p *pass) isLost(a *api.Allocation) bool {
	n := p.in.Node(a.NodeID)
	return n == nil || n.Status == api.NodeStatusDown
}

// openSlots is how many more placements the count allows.
func (p *pass) openSlots() int { return p.group.Count - len(p.keep) - p.placed }

// placeSuccessors follows up on what moved, failed or was lost, as far as the count goes.
func (p *pass) placeSuccessors() {
	p.placeMigrating()
	for _, a := range p.failed {
		canary := p.canary(a)
		s, node := &Stop{Alloc: a, Description: rescheduled}, ""
		if !canary && p.openSlots() <= 0 {
			if !p.needed(a) || p.sharesNode(a) {
				s.Description = NotNeeded
				p.res.Stop = append(p.res.Stop, *s)
				continue
			}
			node = a.NodeID
		}
		p.place(Place{Name: a.Name, Previous: a, Failed: true, Stop: s, Canary: canary, Job: p.versionFor(a), Node: node})
		p.res.Desired.RescheduleNow++
	}
	for _, list := range [][]*api.Allocation{p.lost, p.replaced} {
		for _, a := range list {
			if !p.canary(a) && p.openSlots() > 0 {
				p.place(Place{Name: a.Name, Previous: a, Job: p.versionFor(a)})
			}
		}
	}
	for _, a := range p.unreplaced {
		if p.openSlots() > 0 {
			p.place(Place{Name: a.Name, Previous: a, Job: p.versionFor(a)})
			p.res.Desired.Place++
		}
	}
}

func (p *pass) placeMigrating() {
	for _, r := range p.migrate {
		a, canary := r.Allocation, p.canary(r.Allocation)
		p.res.Stop = append(p.res.Stop, Stop{Alloc: a, Description: Migrating})
		p.res.Desired.Migrate++
		if canary || p.openSlots() > 0 {
			p.place(Place{Name: a.Name, Previous: a, Failed: a.DesiredTransition.Reschedule, Canary: canary, Job: p.versionFor(a)})
		}
	}
}

// versionFor is the older version that the successor of an allocation is to be of; nil for the job's.
func (p *pass) versionFor(a *api.Allocation) *api.Job {
	if p.unpromoted && p.isOlder(a) {
		return a.Job
	}
	return nil
}

func (p *pass) place(pl Place) {
	p.res.Place = append(p.res.Place, pl)
	if !pl.Canary {
		p.placed++
	}
}

// placeMissing places new allocations under the lowest free names. While canaries are unpromoted, that restores
// what the older version had; when the roll-out was halted, nothing new is placed.
func (p *pass) placeMissing() {
	want, job := p.openSlots(), (*api.Job)(nil)
	switch {
	case p.unpromoted && p.older == nil:
		return
	case p.unpromoted:
		job = p.older
		if g := job.Group(p.group.Name); g == nil || g.Count < p.group.Count {
			want -= p.group.Count - countOf(g)
		}
	case p.roll.Halted():
		return
	}
	if want <= 0 {
		return
	}
	var names indexes
	for _, r := range p.keep {
		names.add(r.index)
	}
	for i := range p.res.Place {
		if !p.res.Place[i].Canary {
			names.add(Index(p.res.Place[i].Name))
		}
	}
	p.res.Place = slices.Grow(p.res.Place, want)
	for range want {
		p.place(Place{Name: Name(p.in.Job.ID, p.group.Name, names.next()), Job: job})
		p.res.Desired.Place++
	}
}

func countOf(g *api.TaskGroup) int {
	if g == nil {
		return 0
	}
	return g.Count
}

// replace begins destructive updates, as many as may be under way at once, or all where they can only go together.
func (p *pass) replace() {
	n := len(p.destructive)
	now := 0
	if !p.unpromoted {
		now = p.roll.Limit(n, p.members, p.placed)
	}
	bound := p.group.OnOneNode() && now > 0 && p.in.BoundToVolume != nil && p.in.BoundToVolume(p.destructive[0].Allocation)
	if bound {
		now = n
	}
	p.res.Desired.Ignore += uint64(n - now)
	p.res.Desired.DestructiveUpdate += uint64(now)
	if now == 0 {
		return
	}
	for _, r := range p.destructive {
		p.res.Outdated = append(p.res.Outdated, r.Allocation)
	}
	rows := byIndex(p.destructive)[:now]
	stops := make([]Stop, now)
	p.res.Place = slices.Grow(p.res.Place, now)
	for i, r := range rows {
		stops[i] = Stop{Alloc: r.Allocation, Description: Updating}
		p.res.Place = append(p.res.Place, Place{Name: r.Name, Previous: r.Allocation, Stop: &stops[i], Together: bound})
	}
}

// finish says whether a deployment begins here, or whether the group's part of it is done.
func (p *pass) finish() {
	changes := len(p.res.Update)+len(p.destructive) > 0
	total := p.missing + len(p.res.Update) + len(p.destructive)
	if p.roll.Begins(total, p.ran, changes) {
		canaries := 0
		if p.unpromoted {
			canaries = p.roll.update.Canary
		}
		p.res.State = p.roll.State(total, canaries)
	}
	if p.unpromoted {
		p.res.Older = p.older
	}
	p.res.Settled = !changes && len(p.res.Place)+len(p.migrate)+p.rescheduleLater+p.missingCanaries == 0 && p.roll.Done()
}
