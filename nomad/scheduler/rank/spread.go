package rank

import (
	"math"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// implicit is the target of all values that no target names.
const implicit = "*"

// Spreads counts how a group is spread over the values of some attributes and says how welcome one
// more allocation would be.
type Spreads struct {
	all    []*spread
	tuples map[string]int
	values [][]string
}

type spread struct {
	target  feasible.Target
	share   float64
	desired map[string]float64
	used    map[string]int
	// levels counts the values by their use; few uses differ, so the lowest and highest are found at once.
	levels map[int]int
}

// count adds n to the use of a value.
func (sp *spread) count(value string, n int) {
	was := sp.used[value]
	now := max(was+n, 0)
	if was > 0 {
		if sp.levels[was]--; sp.levels[was] == 0 {
			delete(sp.levels, was)
		}
	}
	if now == 0 {
		delete(sp.used, value)
		return
	}
	sp.used[value] = now
	sp.levels[now]++
}

// NewSpreads gathers the spreads of the job and the group.
func NewSpreads(j *api.Job, g *api.TaskGroup) *Spreads {
	s := &Spreads{tuples: map[string]int{}}
	sum := 0.0
	list := slices.Concat(g.Spreads, j.Spreads)
	for _, sp := range list {
		sum += float64(sp.Weight)
	}
	for _, sp := range list {
		share := 1.0
		if sum > 0 {
			share = float64(sp.Weight) / sum
		}
		s.all = append(s.all, &spread{
			target: feasible.ParseTarget(sp.Attribute), share: share,
			desired: desiredOf(sp, g.Count), used: map[string]int{}, levels: map[int]int{},
		})
	}
	return s
}

func desiredOf(sp *api.Spread, count int) map[string]float64 {
	if len(sp.SpreadTarget) == 0 {
		return nil
	}
	m, rest := map[string]float64{}, float64(count)
	for _, t := range sp.SpreadTarget {
		d := float64(t.Percent) / 100 * float64(count)
		m[t.Value] = d
		rest -= d
	}
	if rest > 0 {
		m[implicit] = rest
	}
	return m
}

// Reset forgets all counts.
func (s *Spreads) Reset() {
	for _, sp := range s.all {
		clear(sp.used)
		clear(sp.levels)
	}
}

// Empty reports whether there are no spreads.
func (s *Spreads) Empty() bool { return len(s.all) == 0 }

// Tuple numbers the combination of values that the node has.
func (s *Spreads) Tuple(n *api.Node) int {
	if len(s.all) == 0 {
		return 0
	}
	values := make([]string, len(s.all))
	for i, sp := range s.all {
		if v, ok := sp.target.Value(n); ok {
			values[i] = "=" + v
		}
	}
	key := strings.Join(values, "\x00")
	t, known := s.tuples[key]
	if !known {
		t = len(s.values)
		s.tuples[key] = t
		s.values = append(s.values, values)
	}
	return t
}

// Count adds n allocations to the values of the tuple; n may be negative.
func (s *Spreads) Count(tuple, n int) {
	if len(s.all) == 0 {
		return
	}
	for i, v := range s.values[tuple] {
		if v != "" {
			s.all[i].count(v[1:], n)
		}
	}
}

// Boost is the part for one more allocation on a node of the tuple.
func (s *Spreads) Boost(tuple int) float64 {
	sum := 0.0
	for i, sp := range s.all {
		v := s.values[tuple][i]
		if v == "" {
			sum--
			continue
		}
		sum += sp.boost(v[1:])
	}
	return sum
}

func (sp *spread) boost(value string) float64 {
	if sp.desired == nil {
		return sp.evenBoost(value)
	}
	desired, named := sp.desired[value]
	if !named {
		if desired, named = sp.desired[implicit]; !named {
			return -1
		}
	}
	if desired == 0 {
		return -1
	}
	return (desired - float64(sp.used[value]+1)) / desired * sp.share
}

// evenBoost pulls towards the values that are used least.
func (sp *spread) evenBoost(value string) float64 {
	if len(sp.used) == 0 {
		return 0
	}
	low, high := math.MaxInt, 0
	for n := range sp.levels {
		low, high = min(low, n), max(high, n)
	}
	current := sp.used[value]
	if current == 0 {
		low = 0
	}
	switch {
	case current != low && low == 0:
		return -float64(current)
	case current != low:
		return float64(low-current) / float64(low)
	case low == high:
		return -1
	case low == 0:
		return float64(high)
	}
	return float64(high-low) / float64(low)
}
