package share

import (
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// sameMax bounds how many of the latest values are compared with the next one.
const sameMax = 16

// Latest finds an equal one among the latest of a list and returns its position, counted from 1; 0 is none.
func Latest[T any](list []T, same func(T) bool) int {
	for i := len(list) - 1; i >= max(0, len(list)-sameMax); i-- {
		if same(list[i]) {
			return i + 1
		}
	}
	return 0
}

// Scores are scores of nodes, of which the latest are found again.
type Scores struct {
	list []map[string]float64
	sums []uint64
}

// Place returns the position of an equal map among the latest, counted from 1, or 0 and adds the map.
func (s *Scores) Place(m map[string]float64) int {
	var sum uint64
	for name, score := range m {
		sum += math.Float64bits(score) * uint64(2*len(name)+1)
	}
	at := Latest(s.sums, func(known uint64) bool { return known == sum })
	if at > 0 && same(s.list[at-1], m) {
		return at
	}
	s.list, s.sums = append(s.list, m), append(s.sums, sum)
	return 0
}

// SameResources compares everything but ports. Resources with networks or devices are never the same.
func SameResources(a, b *api.AllocatedResources) bool {
	if a.Shared.DiskMB != b.Shared.DiskMB || len(a.Shared.Networks)+len(b.Shared.Networks) > 0 {
		return false
	}
	return identical(a.Tasks, b.Tasks) || maps.EqualFunc(a.Tasks, b.Tasks, func(x, y *api.AllocatedTaskResources) bool {
		return x == y || x != nil && y != nil && x.Cpu.CpuShares == y.Cpu.CpuShares && x.Memory == y.Memory &&
			slices.Equal(x.Cpu.ReservedCores, y.Cpu.ReservedCores) &&
			len(x.Networks)+len(y.Networks)+len(x.Devices)+len(y.Devices) == 0
	})
}

// SameCounts compares everything of metrics but time and scores per node. Metrics with exhausted resources
// are never the same.
func SameCounts(a, b *api.AllocationMetric) bool {
	return a.NodesEvaluated == b.NodesEvaluated && a.NodesFiltered == b.NodesFiltered && a.NodesInPool == b.NodesInPool &&
		a.NodePool == b.NodePool && a.NodesExhausted == b.NodesExhausted && a.CoalescedFailures == b.CoalescedFailures &&
		same(a.NodesAvailable, b.NodesAvailable) && same(a.ClassFiltered, b.ClassFiltered) &&
		same(a.ConstraintFiltered, b.ConstraintFiltered) && same(a.ClassExhausted, b.ClassExhausted) &&
		same(a.DimensionExhausted, b.DimensionExhausted) && same(a.Scores, b.Scores) &&
		slices.Equal(a.QuotaExhausted, b.QuotaExhausted) && len(a.ResourcesExhausted)+len(b.ResourcesExhausted) == 0
}

func same[V comparable](a, b map[string]V) bool { return identical(a, b) || maps.Equal(a, b) }

// identical reports whether two maps are one.
func identical[V any](a, b map[string]V) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}
