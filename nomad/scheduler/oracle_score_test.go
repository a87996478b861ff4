package scheduler_test

import (
	"math"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Names of the parts of a score, as users see them.
const (
	fitPart      = "binpack"
	devicePart   = "devices"
	crowdPart    = "job-anti-affinity"
	penaltyPart  = "node-reschedule-penalty"
	affinityPart = "node-affinity"
	spreadPart   = "allocation-spread"
)

// score is what one more allocation of the ask is worth on the node: the mean of the parts that say something.
func (k oracleAsk) score(t *table, s *scene, count int, avoided map[string]bool) (float64, map[string]float64) {
	parts := map[string]float64{fitPart: k.fit(t, s)}
	if total := k.deviceWeights(); total > 0 {
		best, _ := s.bestDevices(k.devices)
		parts[devicePart] = best / total
	}
	if s.own > 0 {
		parts[crowdPart] = -float64(s.own+1) / float64(count)
	}
	if avoided[s.node.ID] {
		parts[penaltyPart] = -1
	}
	if liked := k.liking(s.node); liked != 0 {
		parts[affinityPart] = liked
	}
	if pull := k.pull(t, s.node, count); pull != 0 {
		parts[spreadPart] = pull
	}
	sum := 0.0
	for _, p := range parts {
		sum += p
	}
	return sum / float64(len(parts)), parts
}

func (k oracleAsk) fit(t *table, s *scene) float64 {
	ask := k.amount(s)
	cpu, memory := emptiness(s.total.CPU, s.used.CPU+ask.CPU), emptiness(s.total.MemoryMB, s.used.MemoryMB+ask.MemoryMB)
	points := 20 - cpu - memory
	if t.spread {
		points = cpu + memory - 2
	}
	switch {
	case points < 0:
		return 0
	case points > 18:
		return 1
	}
	return points / 18
}

// emptiness is 10 for what is empty and 1 for what is full. Where there is nothing, nothing is left.
func emptiness(total, used int64) float64 {
	if total == 0 {
		return 1
	}
	return math.Pow(10, float64(total-used)/float64(total))
}

func (k oracleAsk) deviceWeights() float64 {
	total := 0.0
	for _, d := range k.devices {
		for _, f := range d.Affinities {
			total += math.Abs(float64(f.Weight))
		}
	}
	return total
}

// liking is the weight that the node matches, of all weight.
func (k oracleAsk) liking(n *api.Node) float64 {
	matched, total := 0, 0
	for _, level := range k.affinities {
		for _, f := range level {
			w := int(f.Weight)
			total += max(w, -w)
			value, has := valueOf(n, f.LTarget)
			if f.Operand == "is_set" && has || f.Operand == "=" && has && value == f.RTarget {
				matched += w
			}
		}
	}
	if total == 0 {
		return 0
	}
	return float64(matched) / float64(total)
}

func valueOf(n *api.Node, target string) (string, bool) {
	v, has := n.Meta[strings.TrimSuffix(strings.TrimPrefix(target, "${meta."), "}")]
	return v, has
}

// pull is how welcome one more is on the node by all spreads.
func (k oracleAsk) pull(t *table, n *api.Node, count int) float64 {
	weights, sum := 0, 0.0
	for _, level := range k.spreads {
		for _, s := range level {
			weights += int(s.Weight)
		}
	}
	for _, level := range k.spreads {
		for _, s := range level {
			value, has := valueOf(n, s.Attribute)
			switch used := t.uses(s.Attribute); {
			case !has:
				sum--
			case len(s.SpreadTarget) == 0:
				sum += evenPull(used, value)
			default:
				sum += targetPull(s, value, used[value], count, float64(s.Weight)/float64(weights))
			}
		}
	}
	return sum
}

// uses counts the live allocations of the job per value of the attribute.
func (t *table) uses(attribute string) map[string]int {
	used := map[string]int{}
	for _, a := range t.allocs {
		value, has := valueOf(t.nodes[a.NodeID], attribute)
		if has && a.JobID == "asked" && a.DesiredStatus == api.AllocDesiredStatusRun {
			used[value]++
		}
	}
	return used
}

func targetPull(s *api.Spread, value string, used, count int, share float64) float64 {
	percent, named, rest := 0, false, 100
	for _, t := range s.SpreadTarget {
		rest -= int(t.Percent)
		if t.Value == value {
			percent, named = int(t.Percent), true
		}
	}
	if !named {
		percent = rest
	}
	if percent <= 0 {
		return -1
	}
	desired := float64(percent) * float64(count) / 100
	return (desired - float64(used+1)) / desired * share
}

// evenPull compares the use of the value with the least and the most use of any. Where a value is not used at all,
// the least is taken as one in what is divided by: the specification leaves it open.
func evenPull(used map[string]int, value string) float64 {
	if len(used) == 0 {
		return 0
	}
	n, least, most := used[value], math.MaxInt, 0
	for _, u := range used {
		least, most = min(least, u), max(most, u)
	}
	least = min(least, n)
	switch {
	case n != least:
		return float64(least-n) / float64(max(least, 1))
	case least == most:
		return -1
	}
	return float64(most-least) / float64(max(least, 1))
}
