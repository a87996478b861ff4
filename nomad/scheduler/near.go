package scheduler

import (
	"cmp"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
)

// nearAsk is a task whose cores must, or only should, be at the NUMA node of its devices.
type nearAsk struct {
	task    string
	require bool
}

// grantNear returns the assignment with the most tasks near their devices, and among those the one whose devices have the highest
// score; or why there is none.
func (s *exclusiveAsk) grantNear(row *fleet.Row) (*grant, string) {
	elsewhere, why := s.grantAt(row, nil)
	if elsewhere == nil {
		return nil, why
	}
	var best *grant
	bound := 0
	for _, at := range s.spots(row) {
		if best != nil && len(at) < bound {
			break
		}
		g, _ := s.grantAt(row, at)
		if g == nil || best != nil && g.score <= best.score {
			continue
		}
		best, bound = g, len(at)
		if s.weight == 0 {
			break
		}
	}
	if best == nil {
		return nil, noNear
	}
	return best, ""
}

// spots returns the ways to bind tasks to NUMA nodes, those that bind the most tasks first, at most searchMax. Nodes with few free
// cores come first. A task that only prefers to be near its devices may be left unbound.
func (s *exclusiveAsk) spots(row *fleet.Row) []map[string]int {
	numa, free := row.NUMA(), row.FreeCores()
	order := make([]int, len(numa))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(numa[a].And(free).Len(), numa[b].And(free).Len()) })
	all := []map[string]int{{}}
	for _, ask := range s.near {
		var next []map[string]int
		for _, at := range all {
			for _, i := range order {
				one := maps.Clone(at)
				one[ask.task] = i
				next = append(next, one)
			}
		}
		if !ask.require {
			next = append(next, all...)
		}
		slices.SortStableFunc(next, func(a, b map[string]int) int { return len(b) - len(a) })
		all = next[:min(len(next), searchMax)]
	}
	return all
}
