package node

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

func showResources(s *session.Session, n *api.Node, allocs []*api.Allocation, stats *api.HostStats) {
	if n.NodeResources == nil {
		return
	}
	var cpu, memory, disk, count int64
	for _, a := range allocs {
		if a.Terminal() || a.AllocatedResources == nil {
			continue
		}
		count++
		disk += a.AllocatedResources.Shared.DiskMB
		for _, t := range a.AllocatedResources.Tasks {
			cpu += t.Cpu.CpuShares
			memory += t.Memory.MemoryMB
		}
	}
	r := n.NodeResources
	s.Section("Allocated Resources", []string{"CPU", "Memory", "Disk", "Alloc Count"}, []string{
		fmt.Sprintf("%d/%d MHz", cpu, r.Cpu.CpuShares),
		view.Bytes(memory<<20) + "/" + view.Bytes(r.Memory.MemoryMB<<20),
		view.Bytes(disk<<20) + "/" + view.Bytes(r.Disk.DiskMB<<20), strconv.FormatInt(count, 10),
	})
	if stats == nil || stats.Memory == nil {
		return
	}
	row := []string{
		fmt.Sprintf("%.0f/%d MHz", stats.CPUTicksConsumed, r.Cpu.CpuShares),
		view.Bytes(int64(stats.Memory.Used)) + "/" + view.Bytes(int64(stats.Memory.Total)),
	}
	if d := stats.AllocDirStats; d != nil {
		row = append(row, view.Bytes(int64(d.Used))+"/"+view.Bytes(int64(d.Size)))
	}
	s.Section("Host Resource Utilization", []string{"CPU", "Memory", "Disk"}, row)
}

func showMap(s *session.Session, title string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	var pairs [][2]string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, [2]string{k, m[k]})
	}
	s.Titled(title, view.Pairs(pairs...))
}
