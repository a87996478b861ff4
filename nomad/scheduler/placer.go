package scheduler

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/scheduler/rank"
)

// placer chooses nodes for the allocations of one group. It looks at every node once; after that only
// the nodes that a placement or a stop touched are looked at again.
type placer struct {
	run        *run
	group      *api.TaskGroup
	static     *feasible.Static
	ask        fleet.Amount
	ports      portsAsk
	special    *special
	writes     []fleet.Write
	affinities *rank.Affinities
	spreads    *rank.Spreads
	distinct   *distinct
	board      *rank.Board
	resources  *api.AllocatedResources
	hasVolumes bool
	// volatile says that the next allocation may find room where this one did not: volumes per allocation.
	volatile bool

	// fit has the nodes that static rules allow, by index, with what never changes of their score.
	fit []standing
	// collisions are the group's allocations per node.
	collisions []int
	// fits remembers fit scores: most nodes have an equal.
	fits   map[[2]fleet.Amount]float64
	seen   *tally
	failed *api.AllocationMetric
}

// standing is the part of a node's score that stays.
type standing struct {
	ok       bool
	tuple    int
	affinity float64
	wished   bool
}

// newPlacer surveys the nodes. The placer of a system job is told its nodes and ranks none.
func newPlacer(r *run, g *api.TaskGroup) *placer {
	p := &placer{
		run: r, group: g, static: feasible.NewStatic(r.job, g), ask: fleet.AskOf(g), ports: asksOf(g),
		affinities: rank.NewAffinities(r.job, g), spreads: rank.NewSpreads(r.job, g),
		distinct: newDistinct(r.job, g), special: newSpecial(g), writes: fleet.WritesOf(g),
		resources: r.resourcesOf(g), fit: make([]standing, r.edit.Size()), collisions: make([]int, r.edit.Size()),
		fits: map[[2]fleet.Amount]float64{}, seen: newTally(r.job),
	}
	for _, v := range g.Volumes {
		p.hasVolumes = p.hasVolumes || v.Type == api.VolumeTypeCSI
		p.volatile = p.volatile || v.Type == api.VolumeTypeCSI && v.PerAlloc
	}
	r.out.Escaped = r.out.Escaped || p.static.Escaped
	p.survey()
	p.countLive()
	if k := r.kind(); k != api.JobTypeSystem && k != api.JobTypeSysbatch {
		p.board = rank.NewBoard(r.edit.Size())
		for i := range p.fit {
			p.touch(i)
		}
	}
	return p
}

// survey asks every node whether it may run the group.
func (p *placer) survey() {
	classes := p.run.out.Classes
	for i := range p.run.edit.Size() {
		row := p.run.edit.Row(i)
		if row == nil || !p.seen.sees(p.static, row.Node) {
			continue
		}
		reason, classed := p.static.Refusal(row.Node)
		class := row.Node.ComputedClass
		if reason != "" {
			p.seen.filter(row.Node, reason)
			if class != "" && classed && !classes[class] {
				classes[class] = false
			} else if class != "" && !classed {
				classes[class] = true
			}
			continue
		}
		if class != "" {
			classes[class] = true
		}
		s := standing{ok: true, tuple: p.spreads.Tuple(row.Node)}
		s.affinity, s.wished = p.affinities.Score(row.Node)
		p.fit[i] = s
	}
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
}

// count adds n allocations of this group on the node.
func (p *placer) count(i, n int) {
	node := p.run.edit.Row(i).Node
	p.collisions[i] += n
	p.distinct.count(node, true, n)
	if s := p.fit[i]; s.ok {
		p.spreads.Count(s.tuple, n)
	} else if !p.spreads.Empty() {
		p.spreads.Count(p.spreads.Tuple(node), n)
	}
}

// touch scores the node again, or drops it when it has no room now.
func (p *placer) touch(i int) {
	s := p.fit[i]
	if !s.ok || p.board == nil {
		return
	}
	if reason, _ := p.refusal(i); reason != "" {
		p.board.Drop(i)
		return
	}
	p.board.Put(p.candidate(i, s))
}

func (p *placer) candidate(i int, s standing) rank.Candidate {
	c := rank.Candidate{Node: i, Tuple: s.tuple, Sum: p.fitScore(i), Parts: 1, Tie: tie(p.run.in.Seed, i)}
	if n := p.collisions[i]; n > 0 {
		c.Sum, c.Parts = c.Sum+rank.AntiAffinity(n, p.group.Count), c.Parts+1
	}
	if s.wished {
		c.Sum, c.Parts = c.Sum+s.affinity, c.Parts+1
	}
	if score, wished := p.deviceScore(i); wished {
		c.Sum, c.Parts = c.Sum+score, c.Parts+1
	}
	return c
}

func (p *placer) fitScore(i int) float64 {
	row := p.run.edit.Row(i)
	ask := p.ask
	if p.special != nil {
		if g, why := p.special.on(row); why == "" {
			ask.CPU += g.mhz
		}
	}
	return p.fitOf(row.Total, row.Used.Add(ask))
}

func (p *placer) fitOf(total, used fleet.Amount) float64 {
	key := [2]fleet.Amount{total, used}
	score, known := p.fits[key]
	if known {
		return score
	}
	if p.run.spread {
		score = rank.SpreadOut(total, used)
	} else {
		score = rank.BinPack(total, used)
	}
	p.fits[key] = score
	return score
}

// refusal is why the node cannot take one more now: what refused it, and whether it is a matter of room.
func (p *placer) refusal(i int) (reason string, exhausted bool) {
	row := p.run.edit.Row(i)
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

// deviceScore is how much the devices are wished for that the node would give; false when the group has no
// wishes about devices.
func (p *placer) deviceScore(i int) (float64, bool) {
	if !p.special.wished() {
		return 0, false
	}
	g, why := p.special.on(p.run.edit.Row(i))
	if why != "" {
		return 0, false
	}
	return g.score, true
}

// choose finds the best node for the allocation and gives it its resources there.
func (p *placer) choose(a *api.Allocation, preferred int, avoid map[int]bool) bool {
	var ask *feasible.VolumeAsk
	if p.hasVolumes {
		if ask = p.run.volumes.Ask(p.group, a); ask.Impossible() != "" {
			return false
		}
	}
	if preferred >= 0 && p.fit[preferred].ok && p.take(a, preferred, ask) {
		p.explain(a, rank.Candidate{Node: preferred, Sum: p.fitScore(preferred), Parts: 1})
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
		if !ok {
			return p.preempt(a, ask)
		}
		if p.take(a, best.Node, ask) {
			p.explain(a, best)
			return true
		}
		p.board.Drop(best.Node)
		if p.hasVolumes {
			later = append(later, best.Node)
		}
	}
}

// take puts the allocation on the node if it has room.
func (p *placer) take(a *api.Allocation, i int, ask *feasible.VolumeAsk) bool {
	if reason, _ := p.refusal(i); reason != "" {
		return false
	}
	row := p.run.edit.Row(i)
	if ask != nil && ask.Refusal(row.Node) != "" {
		return false
	}
	res, ok := p.assign(row)
	if !ok {
		return false
	}
	a.NodeID, a.NodeName, a.AllocatedResources = row.Node.ID, row.Node.Name, res
	p.run.edit.Add(i, a.ID, loadOf(p.group, a))
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
