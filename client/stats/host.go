package stats

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/open-nomad/open-nomad/api"
)

// Host measures one host. Processor use covers the time since the previous measurement.
type Host struct {
	allocDir string
	mhz      func() int64

	mu   sync.Mutex
	last map[string]cpu.TimesStat // by processor, "cpu-total" for all
}

// New returns a meter. allocDir is the directory whose file system is measured; mhz returns the compute capacity of all
// processors together.
func New(allocDir string, mhz func() int64) *Host {
	return &Host{allocDir: allocDir, mhz: mhz, last: map[string]cpu.TimesStat{}}
}

// Read measures the host.
func (h *Host) Read(ctx context.Context) (*api.HostStats, error) {
	out := &api.HostStats{Timestamp: time.Now().UnixNano()}
	memory, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("read memory use: %w", err)
	}
	out.Memory = &api.HostMemoryStats{
		Total: memory.Total, Available: memory.Available, Free: memory.Free, Used: memory.Total - min(memory.Total, memory.Available),
	}
	if err := h.readCPU(ctx, out); err != nil {
		return nil, fmt.Errorf("read processor use: %w", err)
	}
	if out.Uptime, err = host.UptimeWithContext(ctx); err != nil {
		return nil, fmt.Errorf("read uptime: %w", err)
	}
	allocs, err := Disk(h.allocDir)
	if err != nil {
		return nil, err
	}
	out.AllocDirStats, out.DiskStats = allocs, []*api.HostDiskStats{allocs}
	return out, nil
}

// Disk measures the file system that holds the directory.
func Disk(dir string) (*api.HostDiskStats, error) {
	u, err := disk.Usage(dir)
	if err != nil {
		return nil, fmt.Errorf("measure file system of %s: %w", dir, err)
	}
	return &api.HostDiskStats{
		Mountpoint: dir, Size: u.Total, Available: u.Free, Used: u.Used,
		UsedPercent: u.UsedPercent, InodesUsedPercent: u.InodesUsedPercent,
	}, nil
}

func (h *Host) readCPU(ctx context.Context, out *api.HostStats) error {
	all, err := cpu.TimesWithContext(ctx, false)
	if err != nil {
		return err
	}
	each, err := cpu.TimesWithContext(ctx, true)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	capacity := float64(h.mhz())
	for _, now := range append(all, each...) {
		use := usage(h.last[now.CPU], now)
		h.last[now.CPU] = now
		switch {
		case use == nil:
		case strings.HasPrefix(now.CPU, "cpu-"):
			out.CPUTicksConsumed = capacity * use.TotalPercent / 100
		default:
			use.TotalTicks = capacity / float64(len(each)) * use.TotalPercent / 100
			out.CPU = append(out.CPU, use)
		}
	}
	return nil
}

// usage returns the use of a processor between two readings of its times, or nil if no time has passed.
func usage(before, now cpu.TimesStat) *api.HostCPUStats {
	total := func(t cpu.TimesStat) float64 {
		return t.User + t.Nice + t.System + t.Idle + t.Iowait + t.Irq + t.Softirq + t.Steal
	}
	span := total(now) - total(before)
	if span <= 0 {
		return nil
	}
	user := now.User + now.Nice - before.User - before.Nice
	system := now.System + now.Irq + now.Softirq - before.System - before.Irq - before.Softirq
	idle := 100 * (now.Idle + now.Iowait - before.Idle - before.Iowait) / span
	return &api.HostCPUStats{CPU: now.CPU, User: 100 * user / span, System: 100 * system / span, Idle: idle, TotalPercent: 100 - idle}
}
