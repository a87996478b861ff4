package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/engine"
)

// sample is what a container had used at a time.
type sample struct {
	at                  time.Time
	user, system, total uint64
}

// Stats measures the task's container: processor use since the last call, or since the start.
func (d *Driver) Stats(ctx context.Context, id string) (*api.TaskResourceUsage, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	if t.ended() {
		return &api.TaskResourceUsage{Timestamp: time.Now().UnixNano(), ResourceUsage: &api.ResourceUsage{MemoryStats: &api.MemoryStats{}, CpuStats: &api.CpuStats{}}}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	what := fmt.Sprintf("measure container %.12s", t.container)
	reply, err := d.engine.ContainerStats(ctx, t.container, client.ContainerStatsOptions{})
	if err != nil {
		return nil, engine.Error(what, err)
	}
	defer reply.Body.Close()
	var s container.StatsResponse
	if err := json.NewDecoder(reply.Body).Decode(&s); err != nil {
		return nil, engine.Error(what, err)
	}
	return t.usage(&s, time.Now()), nil
}

func (t *task) usage(s *container.StatsResponse, now time.Time) *api.TaskResourceUsage {
	cpu := s.CPUStats.CPUUsage
	next := sample{now, cpu.UsageInUsermode, cpu.UsageInKernelmode, cpu.TotalUsage}
	t.mu.Lock()
	before := t.last
	t.last = next
	t.mu.Unlock()
	if before.at.IsZero() {
		before.at = t.started
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
