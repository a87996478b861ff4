package scheduler

import (
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/rank"
)

func itoa(n int) string { return strconv.Itoa(n) }

// tally counts nodes for the metrics of a group.
type tally struct {
	base api.AllocationMetric
}

func newTally(j *api.Job) *tally {
	pool := j.NodePool
	if pool == "" {
		pool = api.NodePoolDefault
	}
	return &tally{base: api.AllocationMetric{NodePool: pool, NodesAvailable: map[string]int{}}}
}

// clear begins to count anew; what was handed out stays as it is.
func (t *tally) clear() {
	t.base = api.AllocationMetric{NodePool: t.base.NodePool, NodesAvailable: map[string]int{}}
}

// sees counts a node of the pool.
func (t *tally) sees(n *api.Node, inDatacenter bool) {
	t.base.NodesInPool++
	if inDatacenter {
		t.base.NodesAvailable[n.Datacenter]++
		t.base.NodesEvaluated++
	}
}

func (t *tally) filter(n *api.Node, reason string) { filtered(&t.base, n, reason) }

func filtered(m *api.AllocationMetric, n *api.Node, reason string) {
	m.NodesFiltered++
	m.ConstraintFiltered = add(m.ConstraintFiltered, reason)
	if n.NodeClass != "" {
		m.ClassFiltered = add(m.ClassFiltered, n.NodeClass)
	}
}

func exhausted(m *api.AllocationMetric, n *api.Node, dimension string) {
	m.NodesExhausted++
	m.DimensionExhausted = add(m.DimensionExhausted, dimension)
	if n.NodeClass != "" {
		m.ClassExhausted = add(m.ClassExhausted, n.NodeClass)
	}
}

func add(m map[string]int, key string) map[string]int {
	if m == nil {
		m = map[string]int{}
	}
	m[key]++
	return m
}

func (t *tally) metric() *api.AllocationMetric {
	m := t.base
	m.ConstraintFiltered, m.ClassFiltered = clone(m.ConstraintFiltered), clone(m.ClassFiltered)
	return &m
}

func clone(m map[string]int) map[string]int {
	if m == nil {
		return nil
	}
	c := make(map[string]int, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
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
	for i, s := range p.fit {
		if !s.ok {
			continue
		}
		n := p.run.edit.Row(i).Node
		reason, room := p.refusal(i)
		switch {
		case reason != "" && room:
			exhausted(m, n, reason)
		case reason != "":
			filtered(m, n, reason)
		case ask != nil && ask.Refusal(n) != "":
			filtered(m, n, ask.Refusal(n))
		default:
			exhausted(m, n, "network: dynamic port selection failed")
		}
	}
	m.ResourcesExhausted = lacking(p.group, m.DimensionExhausted)
	p.failed = m
	p.run.out.Failed[p.group.Name] = m
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

// explain writes into a placed allocation how its node was chosen. The counts are shared by all of the
// group.
func (p *placer) explain(a *api.Allocation, chosen rank.Candidate) {
	m := p.seen.base
	m.ScoreMetaData = []*api.NodeScoreMeta{p.scoreMeta(chosen)}
	if !p.explained && p.board != nil {
		p.explained = true
		for _, c := range p.board.Top(othersMax+1, p.spreads.Boost) {
			if c.Node != chosen.Node && len(m.ScoreMetaData) <= othersMax {
				m.ScoreMetaData = append(m.ScoreMetaData, p.scoreMeta(c))
			}
		}
	}
	a.Metrics = &m
}

// explainSystem is explain for a node that was not chosen among others.
func (p *placer) explainSystem(a *api.Allocation, i int) {
	row := p.run.edit.Row(i)
	p.explain(a, rank.Candidate{Node: i, Sum: p.fitOf(row.Total, row.Used), Parts: 1})
}

func (p *placer) scoreMeta(c rank.Candidate) *api.NodeScoreMeta {
	s := p.fit[c.Node]
	row := p.run.edit.Row(c.Node)
	fit := p.fitOf(row.Total, row.Used)
	meta := &api.NodeScoreMeta{NodeID: row.Node.ID, NormScore: c.Mean()}
	collisions := p.collisions[c.Node] - 1
	device, wished := p.deviceScore(c.Node)
	if collisions <= 0 && !s.wished && !wished && p.spreads.Empty() {
		meta.Scores = p.fitAlone(fit)
		return meta
	}
	meta.Scores = map[string]float64{rank.PartFit: fit}
	if collisions > 0 {
		meta.Scores[rank.PartAntiAffinity] = rank.AntiAffinity(collisions, p.group.Count)
	}
	if s.wished {
		meta.Scores[rank.PartAffinity] = s.affinity
	}
	if wished {
		meta.Scores[rank.PartDevices] = device
	}
	if !p.spreads.Empty() {
		meta.Scores[rank.PartSpread] = p.spreads.Boost(int(s.tuple))
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
