package scheduler

import (
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
	"github.com/open-nomad/open-nomad/nomad/scheduler/rank"
)

// placer chooses nodes for the allocations of one group. It starts from a ranking of all nodes; afterwards it scores
// again only the nodes that a placement or a stop touched.
type placer struct {
	*ranking
	run        *run
	group      *api.TaskGroup
	ask        fleet.Amount
	ports      portsAsk
	exclusive  *exclusiveAsk
	writes     []fleet.Write
	distinct   *distinct
	resources  *api.AllocatedResources
	hasVolumes bool
	// amount is what an allocation uses of the quota.
	amount quota.Amount
	// perAllocVolumes reports whether volumes differ per allocation: the next one may fit where this one did not.
	perAllocVolumes bool
	// writesOwn is set when allocations write to host volumes of their own.
	writesOwn bool

	// load is the load of an allocation with the shared resources.
	load fleet.Load
	// evictionQueue ranks nodes by the estimated cost of evictions; nil until the first preemption.
	evictionQueue *rank.Queue
	failed        *api.AllocationMetric
	// contended are the nodes that stay out of the queue while other nodes fit.
	contended []int
	// explained is set when an allocation records the scores of other nodes.
	explained bool
}

// newPlacer ranks the nodes. For a system job it applies the static rules and ranks none.
func newPlacer(r *run, g *api.TaskGroup) *placer {
	p := &placer{
		run: r, group: g, ranking: r.rankingFor(g), ask: fleet.AskOf(g), ports: asksOf(g), distinct: newDistinct(r.job, g),
		exclusive: newExclusiveAsk(g), writes: fleet.WritesOf(g, ""), resources: r.resourcesOf(g),
	}
	p.load = p.loadOf(p.resources)
	if r.quota != nil {
		p.amount = quota.AskOf(g)
	}
	for _, v := range g.Volumes {
		p.hasVolumes = p.hasVolumes || feasible.OfAllocation(v)
		p.perAllocVolumes = p.perAllocVolumes || v.PerAlloc || v.Sticky
		p.writesOwn = p.writesOwn || v.Type == api.VolumeTypeHost && v.PerAlloc && !v.ReadOnly
	}
	r.out.Escaped = r.out.Escaped || p.static.Escaped
	p.begin(r.edit)
	p.countLive()
	p.refresh(r.in.Fleet, r.edit, p.score)
	p.deferContended(r.in.Contended)
	r.mergeClasses(p.counts.eligibility())
	return p
}

// mergeClasses adds the class eligibility of one more group to that of the job.
func (r *run) mergeClasses(classes map[string]bool) {
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

// loadOf returns the load of an allocation of the group with the resources.
func (p *placer) loadOf(res *api.AllocatedResources) fleet.Load {
	l := fleet.LoadOf(p.group, "", res)
	l.Priority = p.run.job.Priority
	return l
}

// rankingFor returns a cached ranking or a new one. It goes to the cache at the end of the evaluation, unless a placement
// on one node changes the rank of others.
func (r *run) rankingFor(g *api.TaskGroup) *ranking {
	k := r.kind()
	ranks := k != api.JobTypeSystem && k != api.JobTypeSysbatch
	if len(newDistinct(r.job, g).properties) > 0 {
		return newRanking(r.job, g, ranks)
	}
	s := r.in.Rankings.get(r, g)
	if s == nil {
		s = newRanking(r.job, g, ranks)
		s.shape = r.in.Rankings.lastShape()
	}
	r.rankings = append(r.rankings, s)
	return s
}

// countLive counts the job's live allocations that the plan keeps and those that it placed.
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
	p.markTouched(i)
}

// count adds n allocations of this group on the node.
func (p *placer) count(i, n int) {
	node := p.run.edit.Row(i).Node
	p.collisions[i] += int32(n)
	p.distinct.count(node, true, n)
	if !p.spreads.Empty() {
		p.spreads.Count(p.tupleOf(i, node), n)
	}
	p.markTouched(i)
}

// touch scores the node again for this evaluation.
func (p *placer) touch(i int) {
	p.markTouched(i)
	p.score(i)
	if p.evictionQueue != nil {
		p.scoreEviction(i)
	}
}

// removeCandidate removes the node from the queue for this evaluation.
func (p *placer) removeCandidate(i int) {
	p.markTouched(i)
	p.queue.Drop(i)
}

// score puts the node into the queue, or removes it when it has no capacity.
func (p *placer) score(i int) {
	if p.queue == nil || !p.ranks[i].ok() {
		return
	}
	row := p.run.edit.Row(i)
	if reason, _ := p.refusal(row); reason != "" {
		p.queue.Drop(i)
		return
	}
	p.queue.Put(p.candidate(i, row))
}

func (p *placer) candidate(i int, row *fleet.Row) rank.Candidate {
	s := &p.ranks[i]
	c := rank.Candidate{Node: i, Tuple: int(s.tuple), Sum: p.fitScore(row), Parts: 1, Tie: tieBreaker(p.run.in.Seed, i)}
	if n := int(p.collisions[i]); n > 0 {
		c.Sum, c.Parts = c.Sum+rank.AntiAffinity(n, p.group.Count), c.Parts+1
	}
	if s.hasAffinity() {
		c.Sum, c.Parts = c.Sum+s.affinity, c.Parts+1
	}
	if score, preferred := p.deviceScore(row); preferred {
		c.Sum, c.Parts = c.Sum+score, c.Parts+1
	}
	return c
}

func (p *placer) fitScore(row *fleet.Row) float64 {
	ask := p.ask
	if p.exclusive != nil {
		if g, why := p.exclusive.grantOn(row); why == "" {
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

// refusal returns why the node cannot take another allocation, or "", and whether it lacks capacity.
func (p *placer) refusal(row *fleet.Row) (reason string, exhausted bool) {
	if reason := p.distinct.refusal(row.Node); reason != "" {
		return reason, false
	}
	if limit := row.Node.NodeMaxAllocs; limit > 0 && row.Count() >= limit {
		return "max allocation exceeded", true
	}
	ask := p.ask
	if p.exclusive != nil {
		g, why := p.exclusive.grantOn(row)
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

// deviceScore returns the affinity score of the devices that the node would grant; false when the group has no device
// affinities.
func (p *placer) deviceScore(row *fleet.Row) (float64, bool) {
	if !p.exclusive.prefersDevices() {
		return 0, false
	}
	g, why := p.exclusive.grantOn(row)
	if why != "" {
		return 0, false
	}
	return g.score, true
}

// deferContended removes nodes from the queue until no other node is left.
func (p *placer) deferContended(nodes []string) {
	if p.queue == nil {
		return
	}
	for _, id := range nodes {
		if i := p.run.edit.Find(id); i >= 0 {
			p.removeCandidate(i)
			p.contended = append(p.contended, i)
		}
	}
}

// restoreContended puts the deferred nodes back and reports whether there were any.
func (p *placer) restoreContended() bool {
	aside := p.contended
	p.contended = nil
	for _, i := range aside {
		p.touch(i)
	}
	return len(aside) > 0
}

// choose finds the best node for the allocation and assigns its resources.
func (p *placer) choose(a *api.Allocation, preferred int, avoid map[int]bool) bool {
	var ask *feasible.VolumeAsk
	if p.hasVolumes {
		if ask = p.run.volumes.Ask(p.group, a); ask.Impossible() != "" {
			return false
		}
	}
	if preferred >= 0 && (p.ranks[preferred].ok() || p.run.groupNeeded(preferred, p.group)) && p.take(a, preferred, ask) {
		row := p.run.edit.Row(preferred)
		p.explain(a, rank.Candidate{Node: preferred, Sum: p.fitOf(row.Total, row.Used), Parts: 1}, placementScore{})
		return true
	}
	var later []int
	defer func() {
		for _, i := range later {
			p.touch(i)
		}
	}()
	for {
		best, ok := p.queue.Best(p.spreads.Boost, avoid)
		if !ok && p.restoreContended() {
			continue
		}
		if !ok {
			return p.preempt(a, ask)
		}
		now := p.placementScoreOf(best, avoid)
		if p.take(a, best.Node, ask) {
			p.explain(a, best, now)
			return true
		}
		p.removeCandidate(best.Node) // permanently where the node cannot reach a shared volume
		if p.hasVolumes && (p.perAllocVolumes || ask.InUse(p.run.edit.Row(best.Node).Node)) {
			later = append(later, best.Node)
		}
	}
}

// take places the allocation on the node if it has capacity and the quota permits it.
func (p *placer) take(a *api.Allocation, i int, ask *feasible.VolumeAsk) bool {
	if p.quotaRefusal() != "" {
		return false
	}
	row := p.run.edit.Row(i)
	if reason, _ := p.refusal(row); reason != "" {
		return false
	}
	if ask != nil && ask.Refusal(row.Node) != "" {
		return false
	}
	if p.writesOwn && slices.ContainsFunc(fleet.WritesOf(p.group, a.Name), func(w fleet.Write) bool { return !row.Writable(w) }) {
		return false
	}
	res, ok := p.assign(row)
	if !ok {
		return false
	}
	a.NodeID, a.NodeName, a.AllocatedResources = row.Node.ID, row.Node.Name, res
	switch {
	case p.writesOwn:
		l := fleet.LoadOf(p.group, a.Name, res)
		l.Priority = p.run.job.Priority
		p.run.edit.Add(i, a.ID, l)
	case res == p.resources:
		p.run.edit.Add(i, a.ID, p.load)
	default:
		p.run.edit.Add(i, a.ID, p.loadOf(res))
	}
	if ask != nil {
		ask.Take(row.Node)
	}
	if p.run.quota != nil {
		p.run.quota.Take(quota.PoolOf(p.run.job), p.amount, 1)
	}
	p.count(i, 1)
	p.touch(i)
	return true
}

// assign returns the resources of an allocation on the node. Groups without exclusive resources share one value.
func (p *placer) assign(row *fleet.Row) (*api.AllocatedResources, bool) {
	if p.exclusive == nil && p.ports.network == nil {
		return p.resources, true
	}
	g, why := p.exclusive.grantOn(row)
	if why != "" {
		return nil, false
	}
	shared, why := p.ports.assign(row, p.resources.Shared, p.run.in.Seed)
	return &api.AllocatedResources{Tasks: g.tasks(row, p.resources.Tasks), Shared: shared}, why == ""
}

// tieBreaker returns a number that orders nodes of equal score differently for each seed.
func tieBreaker(seed uint64, i int) uint32 {
	x := seed ^ uint64(i)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return uint32(x >> 32)
}
