package limits

import (
	"strings"
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs"
	"github.com/opencontainers/cgroups/fs2"

	"github.com/open-nomad/open-nomad/api"
)

// Usage is what the processes of a task use, as its cgroups count it: also what those have used that have ended.
type Usage struct {
	// Counted is set when there is processor time, which is since the start of the task.
	Counted          bool
	User, System     time.Duration
	Throttled        time.Duration
	ThrottledPeriods uint64
	// Memory is nil when no cgroup counts it.
	Memory *api.MemoryStats
}

// Measure reads the cgroups of a task: that of version 2, if it has one, and those of version 1.
func Measure(cgroup string, groups []string) (u Usage) {
	s := cgroups.NewStats()
	if cgroup != "" {
		m, err := fs2.NewManager(&cgroups.Cgroup{}, cgroup)
		if err != nil {
			return u
		}
		if read, err := m.Stats(&cgroups.StatsOptions{Controllers: cgroups.CPU | cgroups.Memory}); err == nil {
			s = read
		}
	}
	for _, dir := range groups {
		switch controllerOf(dir) {
		case memory:
			_ = (&fs.MemoryGroup{}).GetStats(dir, s)
		case cpu:
			_ = (&fs.CpuGroup{}).GetStats(dir, s)
		}
	}
	c := s.CpuStats
	u.User, u.System = time.Duration(c.CpuUsage.UsageInUsermode), time.Duration(c.CpuUsage.UsageInKernelmode)
	u.Counted = u.User+u.System > 0
	u.ThrottledPeriods, u.Throttled = c.ThrottlingData.ThrottledPeriods, time.Duration(c.ThrottlingData.ThrottledTime)
	if m := s.MemoryStats; m.Usage.Usage > 0 {
		u.Memory = memoryStats(m)
	}
	return u
}

// controllerOf is the controller whose hierarchy of version 1 has a cgroup.
func controllerOf(dir string) string {
	rest, _ := strings.CutPrefix(dir, Root+"/")
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// memoryStats names the figures of both versions alike.
func memoryStats(m cgroups.MemoryStats) *api.MemoryStats {
	first := func(keys ...string) uint64 {
		for _, k := range keys {
			if v, ok := m.Stats[k]; ok {
				return v
			}
		}
		return 0
	}
	return &api.MemoryStats{
		RSS: first("total_rss", "rss", "anon"), Cache: m.Cache, Swap: m.SwapOnlyUsage.Usage, MappedFile: first("total_mapped_file", "mapped_file", "file_mapped"),
		Usage: m.Usage.Usage, MaxUsage: m.Usage.MaxUsage, KernelUsage: max(m.KernelUsage.Usage, m.Stats["kernel"]), KernelMaxUsage: m.KernelUsage.MaxUsage,
		Measured: []string{"RSS", "Cache", "Swap", "Mapped File", "Usage", "Max Usage", "Kernel Usage", "Kernel Max Usage"},
	}
}
