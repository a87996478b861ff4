package rank

import (
	"math"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// Affinities are the node affinities of a job, a group and its tasks.
type Affinities struct {
	rules   []*feasible.Rule
	weights []float64
	total   float64
}

// NewAffinities returns the affinities of the group.
func NewAffinities(j *api.Job, g *api.TaskGroup) *Affinities {
	a := &Affinities{}
	a.add(j.Affinities)
	a.add(g.Affinities)
	for _, t := range g.Tasks {
		a.add(t.Affinities)
	}
	return a
}

func (a *Affinities) add(list []*api.Affinity) {
	for _, f := range list {
		a.rules = append(a.rules, feasible.NewRule(f.LTarget, f.Operand, f.RTarget))
		a.weights = append(a.weights, float64(f.Weight))
		a.total += math.Abs(float64(f.Weight))
	}
}

// Score returns the matched weight as a share of the total weight; false when there are no affinities.
func (a *Affinities) Score(n *api.Node) (float64, bool) {
	if a.total == 0 {
		return 0, false
	}
	sum := 0.0
	for i, r := range a.rules {
		if r.Holds(n) {
			sum += a.weights[i]
		}
	}
	return sum / a.total, sum != 0
}
