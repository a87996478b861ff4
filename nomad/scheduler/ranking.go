package scheduler

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/scheduler/rank"
)

// ranking holds, for all nodes, whether static rules allow the task groups of one shape and how the node ranks.
// It outlives the evaluation (see [RankingCache]): the next one evaluates only the nodes that changed.
type ranking struct {
	// shape is the key in the cache.
	shape      string
	static     *feasible.Static
	affinities *rank.Affinities
	spreads    *rank.Spreads
	// queue ranks the nodes that have capacity; nil for system jobs, which run on every node.
	queue *rank.Queue

	// nodes are the nodes as last evaluated, by index; ranks are the results, and counts sums them up.
	nodes   []*api.Node
	ranks   []nodeRank
	reasons []string
	counts  *nodeCounts
	// fits caches fit scores by load: most nodes share one. last is the most recent.
	fits map[load]float64
	last struct {
		load
		score float64
	}
	// fitOnly caches score maps that consist of a fit score only.
	fitOnly map[float64]map[string]float64

	// mark is the fleet position that the queue reflects. The current evaluation tried placements on the touched
	// nodes; the previous one did on the stale nodes. collisions counts allocations of the group per node.
	mark           fleet.Mark
	touched, stale []int32
	collisions     []int32
}

// load is the input of a fit score.
type load struct{ total, used fleet.Amount }

// nodeRank is the part of a node's rank that changes only with the node.
type nodeRank struct {
	affinity float64
	tuple    int32
	// reason is the index in ranking.reasons of why static rules refuse the node.
	reason  uint16
	verdict verdict
	// touched reports whether the node is in ranking.touched.
	touched bool
}

// verdict is the result of the static rules for a node.
type verdict uint8

const (
	unavailable verdict = iota // no node, not ready, or in another pool
	otherDatacenter
	refused
	classRefused // with all nodes of its class
	allowed
)

func (s *nodeRank) ok() bool { return s.verdict == allowed }

// hasAffinity reports whether the affinity score of the node is not zero.
func (s *nodeRank) hasAffinity() bool { return s.affinity != 0 }

// fitsMax bounds the cached fit scores.
const fitsMax = 1 << 16

func newRanking(j *api.Job, g *api.TaskGroup, ranks bool) *ranking {
	s := &ranking{
		static: feasible.NewStatic(j, g), affinities: rank.NewAffinities(j, g), spreads: rank.NewSpreads(j, g),
		fits: map[load]float64{}, fitOnly: map[float64]map[string]float64{}, counts: newNodeCounts(j),
	}
	s.last.total.CPU = -1 // matches no node
	if ranks {
		s.queue = rank.NewQueue(0)
	}
	return s
}

// begin resets what the previous evaluation touched and marks what this one touched so far.
func (s *ranking) begin(e *fleet.Edit) {
	if more := e.Size() - len(s.ranks); more > 0 {
		s.ranks = append(s.ranks, make([]nodeRank, more)...)
		s.nodes = append(s.nodes, make([]*api.Node, more)...)
		s.collisions = append(s.collisions, make([]int32, more)...)
		if s.queue != nil {
			s.queue.Grow(e.Size())
		}
	}
	for _, i := range s.touched {
		s.ranks[i].touched, s.collisions[i] = false, 0
	}
	s.touched, s.stale = s.stale[:0], s.touched
	for _, i := range e.Touched() {
		s.markTouched(int(i))
	}
	s.spreads.Reset()
	if len(s.fits) > fitsMax {
		clear(s.fits)
		clear(s.fitOnly)
	}
}

// markTouched records that the queue reflects placements of this evaluation on the node.
func (s *ranking) markTouched(i int) {
	if x := &s.ranks[i]; !x.touched {
		x.touched = true
		s.touched = append(s.touched, int32(i))
	}
}

// refresh evaluates the nodes that changed since the last refresh and calls rank for every node whose rank may differ.
func (s *ranking) refresh(f *fleet.Fleet, e *fleet.Edit, rank func(i int)) {
	renew := func(i int) {
		var n *api.Node
		if row := e.Row(i); row != nil {
			n = row.Node
		}
		if n != s.nodes[i] {
			s.evaluate(i, n)
		}
		rank(i)
	}
	if rows, known := f.Since(s.mark); known {
		for _, i := range append(rows, s.stale...) {
			renew(int(i))
		}
	} else {
		for i := range e.Size() {
			renew(i)
		}
	}
	for _, i := range s.touched {
		rank(int(i))
	}
	s.mark = f.Mark()
}

// evaluate applies the rules to a node; n is nil when there is none.
func (s *ranking) evaluate(i int, n *api.Node) {
	if s.queue != nil {
		s.queue.Drop(i)
	}
	s.countNode(i, -1)
	x := nodeRank{touched: s.ranks[i].touched}
	if n != nil && s.static.InPool(n) && feasible.Available(n) {
		s.applyStatic(&x, n)
	}
	s.nodes[i], s.ranks[i] = n, x
	s.countNode(i, 1)
}

// applyStatic applies the static rules to a ready node in the pool.
func (s *ranking) applyStatic(x *nodeRank, n *api.Node) {
	if !s.static.InDatacenter(n) {
		x.verdict = otherDatacenter
		return
	}
	reason, classed := s.static.Refusal(n)
	switch {
	case classed:
		x.verdict, x.reason = classRefused, s.reasonIndex(reason)
	case reason != "":
		x.verdict, x.reason = refused, s.reasonIndex(reason)
	default:
		x.verdict, x.tuple = allowed, int32(s.spreads.Tuple(n))
		x.affinity, _ = s.affinities.Score(n)
	}
}

// countNode adds the node to the metrics or removes it: by is 1 or -1.
func (s *ranking) countNode(i, by int) {
	x, n := &s.ranks[i], s.nodes[i]
	if x.verdict == unavailable {
		return
	}
	s.counts.countNode(n, x.verdict, by)
	if x.verdict == refused || x.verdict == classRefused {
		s.counts.countFiltered(n, s.reasons[x.reason], by)
	}
}

// tupleOf returns the combination of spread values of the node, evaluated or not.
func (s *ranking) tupleOf(i int, n *api.Node) int {
	if x := &s.ranks[i]; x.ok() && s.nodes[i] == n {
		return int(x.tuple)
	}
	return s.spreads.Tuple(n)
}

// reasonIndex returns the index of a reason. When the indexes are exhausted, further reasons share the last one.
func (s *ranking) reasonIndex(text string) uint16 {
	for i, known := range s.reasons {
		if known == text {
			return uint16(i)
		}
	}
	if len(s.reasons) < 1<<16-1 {
		s.reasons = append(s.reasons, text)
	}
	return uint16(len(s.reasons) - 1)
}
