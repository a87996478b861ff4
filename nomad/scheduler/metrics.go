package scheduler

import (
	"maps"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/rank"
)

// nodeCounts counts nodes for the metrics of a group.
type nodeCounts struct {
	base api.AllocationMetric
	// shared reports whether the maps of base are in use by allocations and must not change.
	shared  bool
	classes map[string]*class
	// eligible caches the result of eligibility; nil when outdated.
	eligible map[string]bool
}

// class counts the nodes of a computed class, and those that no rule about the class excludes.
type class struct{ nodes, may int }

func newNodeCounts(j *api.Job) *nodeCounts {
	pool := j.NodePool
	if pool == "" {
		pool = api.NodePoolDefault
	}
	return &nodeCounts{base: api.AllocationMetric{NodePool: pool, NodesAvailable: map[string]int{}}, classes: map[string]*class{}}
}

// countNode adds or removes a node of the pool; by is 1 or -1.
func (t *nodeCounts) countNode(n *api.Node, v verdict, by int) {
	t.unshare()
	t.base.NodesInPool += by
	if v == otherDatacenter {
		return
	}
	t.base.NodesAvailable = add(t.base.NodesAvailable, n.Datacenter, by)
	t.base.NodesEvaluated += by
	if n.ComputedClass == "" {
		return
	}
	c := t.classes[n.ComputedClass]
	if c == nil {
		c = &class{}
		t.classes[n.ComputedClass] = c
	}
	if c.nodes += by; c.nodes == 0 {
		delete(t.classes, n.ComputedClass)
	}
	if v != classRefused {
		c.may += by
	}
	t.eligible = nil
}

func (t *nodeCounts) countFiltered(n *api.Node, reason string, by int) {
	countFiltered(&t.base, n, reason, by)
}

func countFiltered(m *api.AllocationMetric, n *api.Node, reason string, by int) {
	m.NodesFiltered += by
	m.ConstraintFiltered = add(m.ConstraintFiltered, reason, by)
	if n.NodeClass != "" {
		m.ClassFiltered = add(m.ClassFiltered, n.NodeClass, by)
	}
}

func countExhausted(m *api.AllocationMetric, n *api.Node, dimension string) {
	m.NodesExhausted++
	m.DimensionExhausted = add(m.DimensionExhausted, dimension, 1)
	if n.NodeClass != "" {
		m.ClassExhausted = add(m.ClassExhausted, n.NodeClass, 1)
	}
}

// add changes a count and deletes it at zero.
func add(m map[string]int, key string, by int) map[string]int {
	if m == nil {
		m = map[string]int{}
	}
	if m[key] += by; by < 0 && m[key] == 0 {
		delete(m, key)
	}
	return m
}

// share returns the counts, read-only.
func (t *nodeCounts) share() api.AllocationMetric {
	t.shared = true
	return t.base
}

// unshare copies the maps if they are shared.
func (t *nodeCounts) unshare() {
	if t.shared {
		t.base, t.shared = *t.metric(), false
	}
}

// eligibility returns, per class, whether the group may run there; read-only.
func (t *nodeCounts) eligibility() map[string]bool {
	if t.eligible == nil {
		t.eligible = make(map[string]bool, len(t.classes))
		for name, c := range t.classes {
			t.eligible[name] = c.may > 0
		}
	}
	return t.eligible
}

// metric returns a copy of the counts.
func (t *nodeCounts) metric() *api.AllocationMetric {
	m := t.base
	m.NodesAvailable, m.ConstraintFiltered, m.ClassFiltered = maps.Clone(m.NodesAvailable), maps.Clone(m.ConstraintFiltered), maps.Clone(m.ClassFiltered)
	return &m
}

// recordFailure records why no node fits the allocation. Further failures of the group are only counted.
func (p *placer) recordFailure(a *api.Allocation) {
	if p.failed != nil {
		p.failed.CoalescedFailures++
		return
	}
	m := p.counts.metric()
	if p.recordQuota(m) {
		p.failed = m
		return
	}
	var ask *feasible.VolumeAsk
	if p.hasVolumes {
		ask = p.run.volumes.Ask(p.group, a)
	}
	for i := range p.ranks {
		if !p.ranks[i].ok() {
			continue
		}
		p.countRefusal(m, i, ask)
	}
	m.ResourcesExhausted = resourcesShort(p.group, m.DimensionExhausted)
	p.failed = m
	p.run.out.Failed[p.group.Name] = m
}

// countRefusal counts a node that cannot take the allocation.
func (p *placer) countRefusal(m *api.AllocationMetric, i int, ask *feasible.VolumeAsk) {
	n := p.run.edit.Row(i).Node
	reason, full := p.refusal(p.run.edit.Row(i))
	switch {
	case reason != "" && full:
		countExhausted(m, n, reason)
	case reason != "":
		countFiltered(m, n, reason, 1)
	case ask != nil && ask.Refusal(n) != "":
		countFiltered(m, n, ask.Refusal(n), 1)
	default:
		countExhausted(m, n, "network: dynamic port selection failed")
	}
}

// resourcesShort returns, per task, the requested amounts of the dimensions that were exhausted on some node.
func resourcesShort(g *api.TaskGroup, dimensions map[string]int) map[string]*api.Resources {
	var all map[string]*api.Resources
	for _, t := range g.Tasks {
		ask, lacks := t.Resources, api.Resources{}
		if ask == nil {
			continue
		}
		if dimensions["cpu"] > 0 {
			lacks.CPU = ask.CPU
		}
		if dimensions[noCores] > 0 {
			lacks.Cores = ask.Cores
		}
		if dimensions["memory"] > 0 {
			lacks.MemoryMB = ask.MemoryMB
		}
		if dimensions["disk"] > 0 {
			lacks.DiskMB = ask.DiskMB
		}
		if lacks.CPU+lacks.Cores+lacks.MemoryMB+lacks.DiskMB > 0 {
			if all == nil {
				all = map[string]*api.Resources{}
			}
			all[t.Name] = &lacks
		}
	}
	return all
}

// otherScoresMax is the number of other nodes whose scores the first placed allocation of a group records. The remaining
// allocations record only their own node.
const otherScoresMax = 4

// explanation holds the metrics of an allocation in one memory block, because every allocation has them.
type explanation struct {
	metric api.AllocationMetric
	chosen api.NodeScoreMeta
	scores [1]*api.NodeScoreMeta
}

// placementScore holds the score parts of one placement that are not in the nodeRank.
type placementScore struct {
	fit, spread, device float64
	collisions          int // other allocations of the group on the node
	penalty             bool
}

// placementScoreOf returns the score parts of the next placement on the node. The caller adds fit and collisions.
func (p *placer) placementScoreOf(c rank.Candidate, avoid map[int]bool) placementScore {
	now := placementScore{spread: p.spreads.Boost(c.Tuple), penalty: avoid[c.Node]}
	if p.exclusive.prefersDevices() {
		now.device, _ = p.deviceScore(p.run.edit.Row(c.Node))
	}
	return now
}

// explain records in a placed allocation how its node was chosen. All allocations of the group share the counts.
func (p *placer) explain(a *api.Allocation, chosen rank.Candidate, now placementScore) {
	row := p.run.edit.Row(chosen.Node)
	now.fit, now.collisions = p.fitOf(row.Total, row.Used), max(int(p.collisions[chosen.Node])-1, 0)
	x := &explanation{metric: p.counts.share(), chosen: p.scoreMeta(chosen, now)}
	x.scores[0] = &x.chosen
	x.metric.ScoreMetaData, a.Metrics = x.scores[:], &x.metric
	if p.explained || p.queue == nil {
		return
	}
	p.explained = true
	others := make([]api.NodeScoreMeta, 0, otherScoresMax)
	list := append(make([]*api.NodeScoreMeta, 0, otherScoresMax+1), &x.chosen)
	for _, c := range p.queue.Top(otherScoresMax+1, p.spreads.Boost) {
		if c.Node != chosen.Node && len(list) <= otherScoresMax {
			then := p.placementScoreOf(c, nil)
			then.fit, then.collisions = p.fitScore(p.run.edit.Row(c.Node)), int(p.collisions[c.Node])
			others = append(others, p.scoreMeta(c, then))
			list = append(list, &others[len(others)-1])
		}
	}
	x.metric.ScoreMetaData = list
}

// explainSystem is explain for a node that was not chosen by rank.
func (p *placer) explainSystem(a *api.Allocation, i int) {
	row := p.run.edit.Row(i)
	p.explain(a, rank.Candidate{Node: i, Sum: p.fitOf(row.Total, row.Used), Parts: 1}, placementScore{})
}

// scoreMeta returns the parts of a score.
func (p *placer) scoreMeta(c rank.Candidate, now placementScore) api.NodeScoreMeta {
	s := &p.ranks[c.Node]
	meta := api.NodeScoreMeta{NodeID: p.run.edit.Row(c.Node).Node.ID, NormScore: c.Mean()}
	devices := p.exclusive.prefersDevices()
	if now.collisions == 0 && !s.hasAffinity() && !devices && p.spreads.Empty() && !now.penalty {
		meta.Scores = p.fitOnlyScores(now.fit)
		return meta
	}
	meta.Scores = map[string]float64{rank.PartFit: now.fit}
	if now.collisions > 0 {
		meta.Scores[rank.PartAntiAffinity] = rank.AntiAffinity(now.collisions, p.group.Count)
	}
	if s.hasAffinity() {
		meta.Scores[rank.PartAffinity] = s.affinity
	}
	if devices {
		meta.Scores[rank.PartDevices] = now.device
	}
	if now.penalty {
		meta.Scores[rank.PartPenalty] = -1
	}
	if !p.spreads.Empty() {
		meta.Scores[rank.PartSpread] = now.spread
	}
	return meta
}

// fitOnlyScores returns the score map of a node for which only the fit counts. Nodes with equal scores share the map.
func (s *ranking) fitOnlyScores(fit float64) map[string]float64 {
	m := s.fitOnly[fit]
	if m == nil {
		m = map[string]float64{rank.PartFit: fit}
		s.fitOnly[fit] = m
	}
	return m
}
