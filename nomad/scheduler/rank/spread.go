package rank

import (
	"encoding/binary"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// implicit is the target of all values without a target of their own.
const implicit = "*"

// Spreads counts how a group is spread over attribute values and scores further allocations.
type Spreads struct {
	all    []*spread
	tuples map[string]int
	// values are the value numbers per tuple and spread; none where a node lacks the attribute.
	values [][]int32
}

const none = -1

type spread struct {
	target feasible.Target
	share  float64
	// wanted are the counts per named value, and for implicit; nil pulls towards even use.
	wanted map[string]float64

	numbers map[string]int32
	// desired is the desired count of each value (0: no target), and used the present count.
	desired []float64
	used    []int
	// levels counts the values by their use. low and high are the least and the most use of those in use,
	// both 0 when none is.
	levels    []int
	low, high int
}

// number returns the number of a value.
func (sp *spread) number(value string) int32 {
	n, known := sp.numbers[value]
	if !known {
		n = int32(len(sp.used))
		sp.numbers[value] = n
		desired, named := sp.wanted[value]
		if !named {
			desired = sp.wanted[implicit]
		}
		sp.used, sp.desired = append(sp.used, 0), append(sp.desired, desired)
	}
	return n
}

// count adds n to the use of a value.
func (sp *spread) count(value int32, n int) {
	was := sp.used[value]
	now := max(was+n, 0)
	sp.used[value] = now
	if more := now + 1 - len(sp.levels); more > 0 {
		sp.levels = append(sp.levels, make([]int, more)...)
	}
	sp.levels[was]--
	sp.levels[now]++
	if now > 0 {
		sp.high = max(sp.high, now)
		if sp.low == 0 || now < sp.low {
			sp.low = now
		}
	}
	for sp.high > 0 && sp.levels[sp.high] <= 0 {
		sp.high--
	}
	for sp.low < sp.high && sp.levels[sp.low] <= 0 {
		sp.low++
	}
	sp.low = min(sp.low, sp.high)
}

func (sp *spread) reset() {
	clear(sp.used)
	clear(sp.levels)
	sp.low, sp.high = 0, 0
}

// NewSpreads returns the spreads of the job and the group.
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
			wanted: wantedOf(sp, g.Count), numbers: map[string]int32{},
		})
	}
	return s
}

func wantedOf(sp *api.Spread, count int) map[string]float64 {
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

// Reset sets all counts to zero.
func (s *Spreads) Reset() {
	for _, sp := range s.all {
		sp.reset()
	}
}

// Empty reports whether there are no spreads.
func (s *Spreads) Empty() bool { return len(s.all) == 0 }

// Tuple returns the number of the node's combination of values.
func (s *Spreads) Tuple(n *api.Node) int {
	if len(s.all) == 0 {
		return 0
	}
	var few [8]int32
	var buf [32]byte
	values, key := few[:0], buf[:0]
	for _, sp := range s.all {
		number := int32(none)
		if v, ok := sp.target.Value(n); ok {
			number = sp.number(v)
		}
		values, key = append(values, number), binary.LittleEndian.AppendUint32(key, uint32(number))
	}
	t, known := s.tuples[string(key)]
	if !known {
		t = len(s.values)
		s.tuples[string(key)] = t
		s.values = append(s.values, slices.Clone(values))
	}
	return t
}

// Count adds n allocations to the values of the tuple; n may be negative.
func (s *Spreads) Count(tuple, n int) {
	if len(s.all) == 0 {
		return
	}
	for i, v := range s.values[tuple] {
		if v != none {
			s.all[i].count(v, n)
		}
	}
}

// Boost returns the spread part for an additional allocation on a node of the tuple.
func (s *Spreads) Boost(tuple int) float64 {
	sum := 0.0
	for i, sp := range s.all {
		switch v := s.values[tuple][i]; {
		case v == none:
			sum--
		case sp.wanted == nil:
			sum += sp.evenBoost(sp.used[v])
		case sp.desired[v] == 0:
			sum--
		default:
			sum += (sp.desired[v] - float64(sp.used[v]+1)) / sp.desired[v] * sp.share
		}
	}
	return sum
}

// evenBoost favours the least used values.
func (sp *spread) evenBoost(current int) float64 {
	low, high := sp.low, sp.high
	if high == 0 {
		return 0
	}
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
