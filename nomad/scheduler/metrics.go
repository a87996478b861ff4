package scheduler

import (
	"maps"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/rank"
)

// tally counts nodes for the metrics of a group.
type tally struct {
	base api.AllocationMetric
	// lent says that the maps of base were handed out: then they stay as they are.
	lent    bool
	classes map[string]*class
	// eligible says per class whether the group may run there; nil when that has to be found out again.
	eligible map[string]bool
}

// class counts the nodes of a class, and those that the group may run on as far as the class tells.
type class struct{ nodes, may int }

func newTally(j *api.Job) *tally {
	pool := j.NodePool
	if pool == "" {
		pool = api.NodePoolDefault
	}
	return &tally{base: api.AllocationMetric{NodePool: pool, NodesAvailable: map[string]int{}}, classes: map[string]*class{}}
}

// sees counts a node of the pool; by is 1 or -1.
func (t *tally) sees(n *api.Node, v verdict, by int) {
	t.own()
	t.base.NodesInPool += by
	if v == elsewhere {
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

func (t *tally) filter(n *api.Node, reason string, by int) { filtered(&t.base, n, reason, by) }

func filtered(m *api.AllocationMetric, n *api.Node, reason string, by int) {
	m.NodesFiltered += by
	m.ConstraintFiltered = add(m.ConstraintFiltered, reason, by)
	if n.NodeClass != "" {
		m.ClassFiltered = add(m.ClassFiltered, n.NodeClass, by)
	}
}

func exhausted(m *api.AllocationMetric, n *api.Node, dimension string) {
	m.NodesExhausted++
	m.DimensionExhausted = add(m.DimensionExhausted, dimension, 1)
	if n.NodeClass != "" {
		m.ClassExhausted = add(m.ClassExhausted, n.NodeClass, 1)
	}
}

// add counts; what is none is not in the map.
func add(m map[string]int, key string, by int) map[string]int {
	if m == nil {
		m = map[string]int{}
	}
	if m[key] += by; by < 0 && m[key] == 0 {
		delete(m, key)
	}
	return m
}

// lend hands the counts out, to be read only.
func (t *tally) lend() api.AllocationMetric {
	t.lent = true
	return t.base
}

// own makes the maps the tally's own again.
func (t *tally) own() {
	if t.lent {
		t.base, t.lent = *t.metric(), false
	}
}

// eligibility says per class whether the group may run there; to be read only.
func (t *tally) eligibility() map[string]bool {
	if t.eligible == nil {
		t.eligible = make(map[string]bool, len(t.classes))
		for name, c := range t.classes {
			t.eligible[name] = c.may > 0
		}
	}
	return t.eligible
}

// metric is a copy of the counts.
func (t *tally) metric() *api.AllocationMetric {
	m := t.base
	m.NodesAvailable, m.ConstraintFiltered, m.ClassFiltered = maps.Clone(m.NodesAvailable), maps.Clone(m.ConstraintFiltered), maps.Clone(m.ClassFiltered)
	return &m
}

// fail records why the allocation found no node; further failures of the group are only counted.
func (p *placer) fail(a *api.Allocation) {
	if p.failed != nil {
		p.failed.CoalescedFailures++
		return
	}
	m := p.seen.metric()
	var ask *feasible.VolumeAsk
	if p.hasVolumes {
		ask = p.run.volumes.Ask(p.group, a)
	}
	for i := range p.fit {
		if !p.fit[i].ok() {
			continue
		}
		p.refusedBy(m, i, ask)
	}
	m.ResourcesExhausted = lacking(p.group, m.DimensionExhausted)
	p.failed = m
	p.run.out.Failed[p.group.Name] = m
}

// refusedBy counts a node that has no place for one more.
func (p *placer) refusedBy(m *api.AllocationMetric, i int, ask *feasible.VolumeAsk) {
	n := p.run.edit.Row(i).Node
	reason, full := p.refusal(p.run.edit.Row(i))
	switch {
	case reason != "" && full:
		exhausted(m, n, reason)
	case reason != "":
		filtered(m, n, reason, 1)
	case ask != nil && ask.Refusal(n) != "":
		filtered(m, n, ask.Refusal(n), 1)
	default:
		exhausted(m, n, "network: dynamic port selection failed")
	}
}

// lacking is what each task of the group asked for of the dimensions that ran out on some node.
func lacking(g *api.TaskGroup, dimensions map[string]int) map[string]*api.Resources {
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

// othersMax is how many other nodes the first allocation that an evaluation places of a group shows the scores
// of; the other allocations show their own node only.
const othersMax = 4

// explanation is how a node was chosen, in one piece: every allocation has one.
type explanation struct {
	metric api.AllocationMetric
	chosen api.NodeScoreMeta
	scores [1]*api.NodeScoreMeta
}

// occasion is what counted for one placement beside the standing of its node.
type occasion struct {
	fit, spread, device float64
	collisions          int // allocations of the group that were there before
	penalty             bool
}

// occasion is what counts for the next placement on the node; its fit and its collisions are known afterwards, too.
func (p *placer) occasion(c rank.Candidate, avoid map[int]bool) occasion {
	now := occasion{spread: p.spreads.Boost(c.Tuple), penalty: avoid[c.Node]}
	if p.special.preferred() {
		now.device, _ = p.deviceScore(p.run.edit.Row(c.Node))
	}
	return now
}

// explain writes into a placed allocation how its node was chosen. The counts are shared by all of the
// group.
func (p *placer) explain(a *api.Allocation, chosen rank.Candidate, now occasion) {
	row := p.run.edit.Row(chosen.Node)
	now.fit, now.collisions = p.fitOf(row.Total, row.Used), max(int(p.collisions[chosen.Node])-1, 0)
	x := &explanation{metric: p.seen.lend(), chosen: p.scoreMeta(chosen, now)}
	x.scores[0] = &x.chosen
	x.metric.ScoreMetaData, a.Metrics = x.scores[:], &x.metric
	if p.explained || p.board == nil {
		return
	}
	p.explained = true
	others := make([]api.NodeScoreMeta, 0, othersMax)
	list := append(make([]*api.NodeScoreMeta, 0, othersMax+1), &x.chosen)
	for _, c := range p.board.Top(othersMax+1, p.spreads.Boost) {
		if c.Node != chosen.Node && len(list) <= othersMax {
			then := p.occasion(c, nil)
			then.fit, then.collisions = p.fitScore(p.run.edit.Row(c.Node)), int(p.collisions[c.Node])
			others = append(others, p.scoreMeta(c, then))
			list = append(list, &others[len(others)-1])
		}
	}
	x.metric.ScoreMetaData = list
}

// explainSystem is explain for a node that was not chosen among others.
func (p *placer) explainSystem(a *api.Allocation, i int) {
	row := p.run.edit.Row(i)
	p.explain(a, rank.Candidate{Node: i, Sum: p.fitOf(row.Total, row.Used), Parts: 1}, occasion{})
}

// scoreMeta shows the parts of a score.
func (p *placer) scoreMeta(c rank.Candidate, now occasion) api.NodeScoreMeta {
	s := &p.fit[c.Node]
	meta := api.NodeScoreMeta{NodeID: p.run.edit.Row(c.Node).Node.ID, NormScore: c.Mean()}
	devices := p.special.preferred()
	if now.collisions == 0 && !s.preferred() && !devices && p.spreads.Empty() && !now.penalty {
		meta.Scores = p.fitAlone(now.fit)
		return meta
	}
	meta.Scores = map[string]float64{rank.PartFit: now.fit}
	if now.collisions > 0 {
		meta.Scores[rank.PartAntiAffinity] = rank.AntiAffinity(now.collisions, p.group.Count)
	}
	if s.preferred() {
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

// fitAlone are the scores of a node for which nothing but the fit counts. Nodes with equal scores share them.
func (s *survey) fitAlone(fit float64) map[string]float64 {
	m := s.alone[fit]
	if m == nil {
		m = map[string]float64{rank.PartFit: fit}
		s.alone[fit] = m
	}
	return m
}
