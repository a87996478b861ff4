package scheduler

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/scheduler/rank"
)

// survey is what all nodes are to the groups of one shape: whether static rules allow them, and how they
// rank. It outlives the evaluation (see [Memory]); then only the nodes that changed are looked at again.
type survey struct {
	// shape is what the survey is remembered by.
	shape      string
	static     *feasible.Static
	affinities *rank.Affinities
	spreads    *rank.Spreads
	// board ranks the nodes that have capacity; nil for system jobs, which are told their nodes.
	board *rank.Board

	// nodes are as they were looked at, by index; fit is what came of it, and seen sums it up.
	nodes   []*api.Node
	fit     []standing
	reasons []string
	seen    *tally
	// fits remembers fit scores: most nodes have an equal. last is the newest of them.
	fits map[load]float64
	last struct {
		load
		score float64
	}
	// alone are scores that consist of a fit score only.
	alone map[float64]map[string]float64

	// mark is the moment of the fleet that the board reflects, but for the touched nodes: on those an
	// evaluation tried placements. stale are those that the evaluation before it touched. collisions are
	// allocations of the group per node.
	mark           fleet.Mark
	touched, stale []int32
	collisions     []int32
}

// load is what a fit score is made of.
type load struct{ total, used fleet.Amount }

// standing is what stays of a node while it does not change.
type standing struct {
	affinity float64
	tuple    int32
	// reason is why static rules refuse the node, by its place in survey.reasons.
	reason  uint16
	verdict verdict
	// touched says that the node is among survey.touched.
	touched bool
}

// verdict is how far a node comes with the static rules.
type verdict uint8

const (
	nowhere   verdict = iota // no node, not available, or in another pool
	elsewhere                // in another datacenter
	refused
	classRefused // with all nodes of its class
	allowed
)

func (s *standing) ok() bool { return s.verdict == allowed }

// preferred reports whether an affinity says something about the node.
func (s *standing) preferred() bool { return s.affinity != 0 }

// fitsMax bounds the remembered fit scores.
const fitsMax = 1 << 16

func newSurvey(j *api.Job, g *api.TaskGroup, ranks bool) *survey {
	s := &survey{
		static: feasible.NewStatic(j, g), affinities: rank.NewAffinities(j, g), spreads: rank.NewSpreads(j, g),
		fits: map[load]float64{}, alone: map[float64]map[string]float64{}, seen: newTally(j),
	}
	s.last.total.CPU = -1 // no node has that
	if ranks {
		s.board = rank.NewBoard(0)
	}
	return s
}

// begin forgets what the last evaluation did, and notes what this one did already.
func (s *survey) begin(e *fleet.Edit) {
	if more := e.Size() - len(s.fit); more > 0 {
		s.fit = append(s.fit, make([]standing, more)...)
		s.nodes = append(s.nodes, make([]*api.Node, more)...)
		s.collisions = append(s.collisions, make([]int32, more)...)
		if s.board != nil {
			s.board.Grow(e.Size())
		}
	}
	for _, i := range s.touched {
		s.fit[i].touched, s.collisions[i] = false, 0
	}
	s.touched, s.stale = s.stale[:0], s.touched
	for _, i := range e.Touched() {
		s.note(int(i))
	}
	s.spreads.Reset()
	if len(s.fits) > fitsMax {
		clear(s.fits)
		clear(s.alone)
	}
}

// note says that the board reflects what this evaluation did on the node.
func (s *survey) note(i int) {
	if x := &s.fit[i]; !x.touched {
		x.touched = true
		s.touched = append(s.touched, int32(i))
	}
}

// catchUp looks at the nodes that changed since the last time, and has all ranked anew that may rank otherwise now.
func (s *survey) catchUp(f *fleet.Fleet, e *fleet.Edit, rank func(i int)) {
	renew := func(i int) {
		var n *api.Node
		if row := e.Row(i); row != nil {
			n = row.Node
		}
		if n != s.nodes[i] {
			s.look(i, n)
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

// look asks whether the node may run the group; n is nil when there is none.
func (s *survey) look(i int, n *api.Node) {
	if s.board != nil {
		s.board.Drop(i)
	}
	s.sum(i, -1)
	x := standing{touched: s.fit[i].touched}
	if n != nil && s.static.InPool(n) && feasible.Available(n) {
		s.judge(&x, n)
	}
	s.nodes[i], s.fit[i] = n, x
	s.sum(i, 1)
}

// judge applies the static rules to a node that is available in the pool.
func (s *survey) judge(x *standing, n *api.Node) {
	if !s.static.InDatacenter(n) {
		x.verdict = elsewhere
		return
	}
	reason, classed := s.static.Refusal(n)
	switch {
	case classed:
		x.verdict, x.reason = classRefused, s.reason(reason)
	case reason != "":
		x.verdict, x.reason = refused, s.reason(reason)
	default:
		x.verdict, x.tuple = allowed, int32(s.spreads.Tuple(n))
		x.affinity, _ = s.affinities.Score(n)
	}
}

// sum counts the node for the metrics, or no longer: by is 1 or -1.
func (s *survey) sum(i, by int) {
	x, n := &s.fit[i], s.nodes[i]
	if x.verdict == nowhere {
		return
	}
	s.seen.sees(n, x.verdict, by)
	if x.verdict == refused || x.verdict == classRefused {
		s.seen.filter(n, s.reasons[x.reason], by)
	}
}

// tupleOf is the combination of spread values of the node, which may have been looked at or not.
func (s *survey) tupleOf(i int, n *api.Node) int {
	if x := &s.fit[i]; x.ok() && s.nodes[i] == n {
		return int(x.tuple)
	}
	return s.spreads.Tuple(n)
}

// reason is the number of a reason. Beyond what the numbers can tell apart, all are the last.
func (s *survey) reason(text string) uint16 {
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
