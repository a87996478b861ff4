// Package usage turns what an engine measures of a container into the figures of the agent.
package usage

import (
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/open-nomad/open-nomad/api"
)

// Meter measures one container; the zero value is ready.
type Meter struct {
	mu   sync.Mutex
	last sample
}

// sample is what a container had used at a time.
type sample struct {
	at                  time.Time
	user, system, total uint64
}

// Read turns what the engine has measured into the figures of the agent: processor use since the last call, or since the
// start.
func (m *Meter) Read(s *container.StatsResponse, started, now time.Time) *api.TaskResourceUsage {
	cpu := s.CPUStats.CPUUsage
	next := sample{now, cpu.UsageInUsermode, cpu.UsageInKernelmode, cpu.TotalUsage}
	m.mu.Lock()
	before := m.last
	m.last = next
	m.mu.Unlock()
	if before.at.IsZero() {
		before.at = started
	}
	span := max(now.Sub(before.at).Seconds(), 0.001)
	percent := func(now, before uint64) float64 {
		if now < before {
			return 0
		}
		return 100 * time.Duration(now-before).Seconds() / span
	}
	return &api.TaskResourceUsage{Timestamp: now.UnixNano(), ResourceUsage: &api.ResourceUsage{
		MemoryStats: memory(s.MemoryStats),
		CpuStats: &api.CpuStats{
			UserMode: percent(next.user, before.user), SystemMode: percent(next.system, before.system), Percent: percent(next.total, before.total),
			ThrottledPeriods: s.CPUStats.ThrottlingData.ThrottledPeriods, ThrottledTime: s.CPUStats.ThrottlingData.ThrottledTime,
			Measured: []string{"Throttled Periods", "Throttled Time", "System Mode", "User Mode", "Percent"},
		},
	}}
}

// memory names the figures of both versions of cgroups alike.
func memory(s container.MemoryStats) *api.MemoryStats {
	first := func(keys ...string) uint64 {
		for _, k := range keys {
			if v, ok := s.Stats[k]; ok {
				return v
			}
		}
		return 0
	}
	return &api.MemoryStats{
		RSS: first("rss", "anon"), Cache: first("cache", "file"), Swap: first("swap"), MappedFile: first("mapped_file", "file_mapped"),
		Usage: s.Usage, MaxUsage: s.MaxUsage, Measured: []string{"RSS", "Cache", "Swap", "Mapped File", "Usage", "Max Usage"},
	}
}
