package scheduler

import (
	"maps"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/scheduler/rank"
)

// placer chooses nodes for the allocations of one group. What it knows of the nodes is a survey; after that
// only the nodes that a placement or a stop touched are looked at again.
type placer struct {
	*survey
	run        *run
	group      *api.TaskGroup
	ask        fleet.Amount
	ports      portsAsk
	special    *special
	writes     []fleet.Write
	distinct   *distinct
	resources  *api.AllocatedResources
	hasVolumes bool
	// volatile says that the next allocation may find capacity where this one did not: volumes per allocation.
	volatile bool

	// load is what an allocation takes that has the shared resources.
	load fleet.Load
	// evictable ranks nodes by what would be evicted there; nil until somebody must be.
	evictable *rank.Board
	failed    *api.AllocationMetric
	// crowded are the nodes that stay off the board as long as there are others.
	crowded []int
	// explained is set when an allocation shows how other nodes did.
	explained bool
}

// newPlacer surveys the nodes. The placer of a system job is told its nodes and ranks none.
func newPlacer(r *run, g *api.TaskGroup) *placer {
	p := &placer{
		run: r, group: g, survey: r.surveyFor(g), ask: fleet.AskOf(g), ports: asksOf(g), distinct: newDistinct(r.job, g),
		special: newSpecial(g), writes: fleet.WritesOf(g), resources: r.resourcesOf(g),
	}
	p.load = p.loadOf(p.resources)
	for _, v := range g.Volumes {
		p.hasVolumes = p.hasVolumes || v.Type == api.VolumeTypeCSI
		p.volatile = p.volatile || v.Type == api.VolumeTypeCSI && v.PerAlloc
	}
	r.out.Escaped = r.out.Escaped || p.static.Escaped
	p.begin(r.edit)
	p.countLive()
	p.catchUp(r.in.Fleet, r.edit, p.score)
	p.setAside(r.in.Crowded)
	r.admit(p.seen.eligibility())
	return p
}

// admit adds to the classes of nodes that may run a group of the job those that may run one more.
func (r *run) admit(classes map[string]bool) {
	if len(r.out.Classes) == 0 {
		r.out.Classes = classes
		return
	}
	all := r.out.Classes
	for name, may := range classes {
		if had, known := all[name]; known && (had || !may) {
			continue
		}
		if !r.ownClasses {
			all, r.ownClasses = maps.Clone(all), true
		}
		all[name] = may
	}
	r.out.Classes = all
}

// loadOf is what an allocation of the group takes that has the resources.
func (p *placer) loadOf(res *api.AllocatedResources) fleet.Load {
	l := fleet.LoadOf(p.group, res)
	l.Priority = p.run.job.Priority
	return l
}

// surveyFor takes a survey that an earlier evaluation left, or begins one. It is given back at the end, unless what
// happens on one node changes how others rank.
func (r *run) surveyFor(g *api.TaskGroup) *survey {
	k := r.kind()
	ranks := k != api.JobTypeSystem && k != api.JobTypeSysbatch
	if len(newDistinct(r.job, g).properties) > 0 {
		return newSurvey(r.job, g, ranks)
	}
	s := r.in.Memory.take(r, g)
	if s == nil {
		s = newSurvey(r.job, g, ranks)
		s.shape = r.in.Memory.named()
	}
	r.surveys = append(r.surveys, s)
	return s
}

// countLive counts the job's live allocations that the plan keeps, and those it placed already.
func (p *placer) countLive() {
	for _, allocs := range p.run.allocs {
		for _, a := range allocs {
			if !a.Terminal() && !p.run.gone[a.ID] {
				p.countOther(a.TaskGroup, a.NodeID)
			}
		}
	}
	for _, allocs := range p.run.out.Plan.NodeAllocation {
		for _, a := range allocs {
			if a.CreateIndex == 0 {
				p.countOther(a.TaskGroup, a.NodeID)
			}
		}
	}
}

func (p *placer) countOther(group, node string) {
	i := p.run.edit.Find(node)
	if i < 0 {
		return
	}
	if group == p.group.Name {
		p.count(i, 1)
		return
	}
	p.distinct.count(p.run.edit.Row(i).Node, false, 1)
	p.note(i)
}

// count adds n allocations of this group on the node.
func (p *placer) count(i, n int) {
	node := p.run.edit.Row(i).Node
	p.collisions[i] += int32(n)
	p.distinct.count(node, true, n)
	if !p.spreads.Empty() {
		p.spreads.Count(p.tupleOf(i, node), n)
	}
	p.note(i)
}

// touch ranks the node anew for this evaluation.
func (p *placer) touch(i int) {
	p.note(i)
	p.score(i)
	if p.evictable != nil {
		p.weigh(i)
	}
}

// drop takes the node off the board for this evaluation.
func (p *placer) drop(i int) {
	p.note(i)
	p.board.Drop(i)
}

// score ranks the node, or takes it off the board when it has no capacity now.
func (p *placer) score(i int) {
	if p.board == nil || !p.fit[i].ok() {
		return
	}
	row := p.run.edit.Row(i)
	if reason, _ := p.refusal(row); reason != "" {
		p.board.Drop(i)
		return
	}
	p.board.Put(p.candidate(i, row))
}

func (p *placer) candidate(i int, row *fleet.Row) rank.Candidate {
	s := &p.fit[i]
	c := rank.Candidate{Node: i, Tuple: int(s.tuple), Sum: p.fitScore(row), Parts: 1, Tie: tie(p.run.in.Seed, i)}
	if n := int(p.collisions[i]); n > 0 {
		c.Sum, c.Parts = c.Sum+rank.AntiAffinity(n, p.group.Count), c.Parts+1
	}
	if s.preferred() {
		c.Sum, c.Parts = c.Sum+s.affinity, c.Parts+1
	}
	if score, preferred := p.deviceScore(row); preferred {
		c.Sum, c.Parts = c.Sum+score, c.Parts+1
	}
	return c
}

func (p *placer) fitScore(row *fleet.Row) float64 {
	ask := p.ask
	if p.special != nil {
		if g, why := p.special.on(row); why == "" {
			ask.CPU += g.mhz
		}
	}
	return p.fitOf(row.Total, row.Used.Add(ask))
}

func (p *placer) fitOf(total, used fleet.Amount) float64 {
	key := load{total, used}
	if p.last.load == key {
		return p.last.score
	}
	score, known := p.fits[key]
	if !known {
		if p.run.spread {
			score = rank.SpreadOut(total, used)
		} else {
			score = rank.BinPack(total, used)
		}
		p.fits[key] = score
	}
	p.last.load, p.last.score = key, score
	return score
}

// refusal is why the node cannot take one more now: what refused it, and whether it is a matter of capacity.
func (p *placer) refusal(row *fleet.Row) (reason string, exhausted bool) {
	if reason := p.distinct.refusal(row.Node); reason != "" {
		return reason, false
	}
	if limit := row.Node.NodeMaxAllocs; limit > 0 && row.Count() >= limit {
		return "max allocation exceeded", true
	}
	ask := p.ask
	if p.special != nil {
		g, why := p.special.on(row)
		if why != "" {
			return why, true
		}
		ask.CPU += g.mhz
	}
	if dim := row.Used.Add(ask).Exceeds(row.Total); dim != "" {
		return dim, true
	}
	if reason := p.ports.refusal(row); reason != "" {
		return reason, true
	}
	for _, w := range p.writes {
		if !row.Writable(w) {
			return "host volume " + w.Volume + " has a single writer already", false
		}
	}
	return "", false
}

// deviceScore is how much the devices are preferred that the node would give; false when the group has no
// preferences about devices.
func (p *placer) deviceScore(row *fleet.Row) (float64, bool) {
	if !p.special.preferred() {
		return 0, false
	}
	g, why := p.special.on(row)
	if why != "" {
		return 0, false
	}
	return g.score, true
}

// setAside takes nodes off the board until nothing else is left.
func (p *placer) setAside(nodes []string) {
	if p.board == nil {
		return
	}
	for _, id := range nodes {
		if i := p.run.edit.Find(id); i >= 0 {
			p.drop(i)
			p.crowded = append(p.crowded, i)
		}
	}
}

// admitCrowded puts back what was set aside and reports whether that was anything.
func (p *placer) admitCrowded() bool {
	aside := p.crowded
	p.crowded = nil
	for _, i := range aside {
		p.touch(i)
	}
	return len(aside) > 0
}

// choose finds the best node for the allocation and gives it its resources there.
func (p *placer) choose(a *api.Allocation, preferred int, avoid map[int]bool) bool {
	var ask *feasible.VolumeAsk
	if p.hasVolumes {
		if ask = p.run.volumes.Ask(p.group, a); ask.Impossible() != "" {
			return false
		}
	}
	if preferred >= 0 && (p.fit[preferred].ok() || p.run.needs(preferred, p.group)) && p.take(a, preferred, ask) {
		row := p.run.edit.Row(preferred)
		p.explain(a, rank.Candidate{Node: preferred, Sum: p.fitOf(row.Total, row.Used), Parts: 1}, occasion{})
		return true
	}
	var later []int
	defer func() {
		for _, i := range later {
			p.touch(i)
		}
	}()
	for {
		best, ok := p.board.Best(p.spreads.Boost, avoid)
		if !ok && p.admitCrowded() {
			continue
		}
		if !ok {
			return p.preempt(a, ask)
		}
		now := p.occasion(best, avoid)
		if p.take(a, best.Node, ask) {
			p.explain(a, best, now)
			return true
		}
		p.drop(best.Node) // for good where the node cannot reach a shared volume
		if p.hasVolumes && (p.volatile || ask.Taken(p.run.edit.Row(best.Node).Node)) {
			later = append(later, best.Node)
		}
	}
}

// take puts the allocation on the node if it has capacity.
func (p *placer) take(a *api.Allocation, i int, ask *feasible.VolumeAsk) bool {
	row := p.run.edit.Row(i)
	if reason, _ := p.refusal(row); reason != "" {
		return false
	}
	if ask != nil && ask.Refusal(row.Node) != "" {
		return false
	}
	res, ok := p.assign(row)
	if !ok {
		return false
	}
	a.NodeID, a.NodeName, a.AllocatedResources = row.Node.ID, row.Node.Name, res
	if res == p.resources {
		p.run.edit.Add(i, a.ID, p.load)
	} else {
		p.run.edit.Add(i, a.ID, p.loadOf(res))
	}
	if ask != nil {
		ask.Take(row.Node)
	}
	p.count(i, 1)
	p.touch(i)
	return true
}

// assign is what an allocation gets on the node. Those that get nothing of their own share it.
func (p *placer) assign(row *fleet.Row) (*api.AllocatedResources, bool) {
	if p.special == nil && p.ports.network == nil {
		return p.resources, true
	}
	g, why := p.special.on(row)
	if why != "" {
		return nil, false
	}
	shared, why := p.ports.assign(row, p.resources.Shared, p.run.in.Seed)
	return &api.AllocatedResources{Tasks: g.tasks(row, p.resources.Tasks), Shared: shared}, why == ""
}

// tie is a number that orders equally good nodes differently for each seed.
func tie(seed uint64, i int) uint32 {
	x := seed ^ uint64(i)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return uint32(x >> 32)
}
