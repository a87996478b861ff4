package usage_test

import (
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/open-nomad/open-nomad/plugins/driver/docker/usage"
)

func TestProcessorUseIsSinceTheLastReading(t *testing.T) {
	var m usage.Meter
	var s container.StatsResponse
	started := time.Unix(1000, 0)
	for i, want := range []float64{50, 100, 0} {
		s.CPUStats.CPUUsage.TotalUsage = []uint64{1e9, 3e9, 2e9}[i] // the last one is lower: the engine began anew
		got := m.Read(&s, started, started.Add(time.Duration(i+1)*2*time.Second)).ResourceUsage.CpuStats.Percent
		if got != want {
			t.Errorf("reading %d is %v %%, want %v %%", i, got, want)
		}
	}
}

func TestMemoryOfBothVersionsOfCgroups(t *testing.T) {
	for name, stats := range map[string]map[string]uint64{"1": {"rss": 7, "cache": 8, "mapped_file": 9}, "2": {"anon": 7, "file": 8, "file_mapped": 9}} {
		var m usage.Meter
		got := m.Read(&container.StatsResponse{MemoryStats: container.MemoryStats{Usage: 20, Stats: stats}}, time.Now(), time.Now()).ResourceUsage.MemoryStats
		if got.RSS != 7 || got.Cache != 8 || got.MappedFile != 9 || got.Usage != 20 {
			t.Errorf("version %s: %+v", name, got)
		}
	}
}
