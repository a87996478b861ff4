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
	static     *feasible.Static
	affinities *rank.Affinities
	spreads    *rank.Spreads
	// board ranks the nodes that have room; nil for system jobs, which are told their nodes.
	board *rank.Board

	// nodes are as they were looked at, by index; fit is what came of it.
	nodes   []*api.Node
	fit     []standing
	reasons []string
	// fits remembers fit scores: most nodes have an equal.
	fits map[[2]fleet.Amount]float64
	// alone are scores that consist of a fit score only.
	alone map[float64]map[string]float64
	// seen and classes sum up fit.
	seen    *tally
	classes map[string]bool

	// mark is the moment of the fleet that the board reflects, but for the touched nodes: on those an
	// evaluation tried placements.
	mark    fleet.Mark
	touched []int
}

// standing is what stays of a node while it does not change.
type standing struct {
	affinity float64
	tuple    int32
	// reason is why static rules refuse the node, by its place in survey.reasons; 0 is no reason.
	reason uint16
	// ok allows the node; wished has an affinity to it; classed refuses all of its class.
	ok, wished, classed, inPool, inDatacenter bool
}

// fitsMax bounds the remembered fit scores.
const fitsMax = 1 << 16

func newSurvey(j *api.Job, g *api.TaskGroup, ranks bool) *survey {
	s := &survey{
		static: feasible.NewStatic(j, g), affinities: rank.NewAffinities(j, g), spreads: rank.NewSpreads(j, g),
		reasons: []string{""}, fits: map[[2]fleet.Amount]float64{}, alone: map[float64]map[string]float64{}, seen: newTally(j), classes: map[string]bool{},
	}
	if ranks {
		s.board = rank.NewBoard(0)
	}
	return s
}

// catchUp looks at the nodes that changed since the last time and answers which rows are to be ranked anew.
func (s *survey) catchUp(f *fleet.Fleet, e *fleet.Edit) []int {
	s.grow(e.Size())
	rows, known := f.Since(s.mark)
	if !known {
		rows = rows[:0]
		for i := range e.Size() {
			rows = append(rows, i)
		}
	}
	changed := false
	for _, i := range rows {
		var n *api.Node
		if row := e.Row(i); row != nil {
			n = row.Node
		}
		if n != s.nodes[i] {
			s.look(i, n)
			changed = true
		}
	}
	if changed {
		s.sum()
	}
	rows = append(append(rows, s.touched...), e.Touched()...)
	s.mark, s.touched = f.Mark(), s.touched[:0]
	s.spreads.Reset()
	if len(s.fits) > fitsMax {
		clear(s.fits)
		clear(s.alone)
	}
	return rows
}

func (s *survey) grow(size int) {
	if more := size - len(s.fit); more > 0 {
		s.fit = append(s.fit, make([]standing, more)...)
		s.nodes = append(s.nodes, make([]*api.Node, more)...)
	}
	if s.board != nil {
		s.board.Grow(size)
	}
}

// look asks whether the node may run the group; n is nil when there is none.
func (s *survey) look(i int, n *api.Node) {
	s.nodes[i], s.fit[i] = n, standing{}
	if s.board != nil {
		s.board.Drop(i)
	}
	if n == nil || !s.static.InPool(n) || !feasible.Available(n) {
		return
	}
	x := standing{inPool: true, inDatacenter: s.static.InDatacenter(n)}
	if x.inDatacenter {
		reason, classed := s.static.Refusal(n)
		x.reason, x.classed, x.ok = s.reason(reason), classed, reason == ""
	}
	if x.ok {
		x.tuple = int32(s.spreads.Tuple(n))
		x.affinity, x.wished = s.affinities.Score(n)
	}
	s.fit[i] = x
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

// sum counts for the metrics, and tells which classes of nodes are ruled out.
func (s *survey) sum() {
	s.seen.clear()
	clear(s.classes)
	for i, x := range s.fit {
		if !x.inPool {
			continue
		}
		n := s.nodes[i]
		s.seen.sees(n, x.inDatacenter)
		if !x.inDatacenter {
			continue
		}
		if !x.ok {
			s.seen.filter(n, s.reasons[x.reason])
		}
		if class := n.ComputedClass; class != "" {
			s.classes[class] = s.classes[class] || x.ok || !x.classed
		}
	}
}
