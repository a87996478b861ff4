package rank_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/scheduler/rank"
)

func TestFitScores(t *testing.T) {
	total := fleet.Amount{CPU: 100, MemoryMB: 100}
	for _, c := range []struct {
		used       fleet.Amount
		pack, thin float64
	}{
		{fleet.Amount{}, 0, 1},
		{total, 1, 0},
		{fleet.Amount{CPU: 50, MemoryMB: 50}, (20 - 2*math.Sqrt(10)) / 18, (2*math.Sqrt(10) - 2) / 18},
	} {
		if got := rank.BinPack(total, c.used); math.Abs(got-c.pack) > 1e-9 {
			t.Errorf("pack %v: %v, want %v", c.used, got, c.pack)
		}
		if got := rank.SpreadOut(total, c.used); math.Abs(got-c.thin) > 1e-9 {
			t.Errorf("spread %v: %v, want %v", c.used, got, c.thin)
		}
	}
}

// The queue returns what a scan of every candidate returns.
func TestBoardFindsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const nodes = 30
		b := rank.NewQueue(nodes)
		all := map[int]rank.Candidate{}
		boosts := []float64{0, rapid.Float64Range(-1, 1).Draw(t, "boost")}
		boost := func(tuple int) float64 { return boosts[tuple] }
		for range rapid.IntRange(1, 90).Draw(t, "steps") {
			n := rapid.IntRange(0, nodes-1).Draw(t, "node")
			if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
				b.Drop(n)
				delete(all, n)
			} else {
				c := rank.Candidate{
					Node: n, Tuple: n % 2, Parts: rapid.IntRange(1, 2).Draw(t, "parts"),
					Sum: rapid.Float64Range(-1, 3).Draw(t, "sum"), Tie: uint32(n),
				}
				b.Put(c)
				all[n] = c
			}
			avoid := map[int]bool{rapid.IntRange(0, nodes-1).Draw(t, "avoid"): true}
			got, ok := b.Best(boost, avoid)
			want := math.Inf(-1)
			for _, c := range all {
				if avoid[c.Node] {
					c.Sum, c.Parts = c.Sum-1, c.Parts+1
				}
				if x := boosts[c.Tuple]; x != 0 {
					c.Sum, c.Parts = c.Sum+x, c.Parts+1
				}
				want = max(want, c.Mean())
			}
			if ok != (len(all) > 0) || ok && got.Mean() != want {
				t.Fatalf("best %+v (%v), want score %v of %v", got, ok, want, all)
			}
		}
	})
}

func TestSpreadTargets(t *testing.T) {
	s := rank.NewSpreads(&api.Job{}, &api.TaskGroup{Count: 10, Spreads: []*api.Spread{{
		Attribute: "${node.datacenter}", Weight: 50,
		SpreadTarget: []*api.SpreadTarget{{Value: "dc1", Percent: 70}, {Value: "dc2", Percent: 30}},
	}}})
	tuple := func(dc string) int { return s.Tuple(&api.Node{Datacenter: dc}) }
	if got := s.Boost(tuple("dc1")); math.Abs(got-6.0/7) > 1e-9 {
		t.Errorf("first in dc1: %v", got)
	}
	if got := s.Boost(tuple("dc3")); got != -1 {
		t.Errorf("no target: %v", got)
	}
	s.Count(tuple("dc1"), 7)
	if got := s.Boost(tuple("dc1")); got >= 0 {
		t.Errorf("beyond the target: %v", got)
	}
}

// Pulling towards even use needs the least and the most use of a value; counting keeps them as looking at all
// values finds them.
func TestEvenSpreadFollowsTheCounts(t *testing.T) {
	racks := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		s := rank.NewSpreads(&api.Job{}, &api.TaskGroup{Count: 10, Spreads: []*api.Spread{{Attribute: "${meta.rack}", Weight: 50}}})
		tuple := func(rack string) int { return s.Tuple(&api.Node{Meta: map[string]string{"rack": rack}}) }
		used := map[string]int{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			rack := rapid.SampledFrom(racks).Draw(t, "rack")
			n := rapid.IntRange(-3, 3).Draw(t, "n")
			s.Count(tuple(rack), n)
			if used[rack] = max(used[rack]+n, 0); used[rack] == 0 {
				delete(used, rack)
			}
			for _, rack := range racks {
				if got, want := s.Boost(tuple(rack)), evenly(used, rack); got != want {
					t.Fatalf("one more on %s of %v: %v, want %v", rack, used, got, want)
				}
			}
			if rapid.IntRange(0, 9).Draw(t, "reset") == 0 {
				s.Reset()
				clear(used)
			}
		}
	})
}

func evenly(used map[string]int, value string) float64 {
	if len(used) == 0 {
		return 0
	}
	counts := slices.Sorted(maps.Values(used))
	low, high, n := float64(counts[0]), float64(counts[len(counts)-1]), float64(used[value])
	switch {
	case n == 0:
		return high
	case n > low:
		return (low - n) / low
	case low == high:
		return -1
	}
	return (high - low) / low
}

func TestTopLeavesTheBoardAsItIs(t *testing.T) {
	b := rank.NewQueue(5)
	for i := range 5 {
		b.Put(rank.Candidate{Node: i, Tuple: i % 2, Sum: float64(i) / 10, Parts: 1})
	}
	boost := func(tuple int) float64 { return float64(tuple) / 3 }
	var got []int
	for _, c := range b.Top(3, boost) {
		got = append(got, c.Node)
	}
	if want := []int{4, 3, 1}; !slices.Equal(got, want) {
		t.Errorf("top %v, want %v", got, want)
	}
	for range 2 {
		if again := b.Top(9, boost); len(again) != 5 || again[0].Node != got[0] {
			t.Errorf("afterwards %+v", again)
		}
	}
}
