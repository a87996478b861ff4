package alloc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// taskNames lists the tasks of an allocation in the order of its job.
func taskNames(a *api.Allocation) []string {
	if g := a.Group(); g != nil {
		names := make([]string, 0, len(g.Tasks))
		for _, t := range g.Tasks {
			names = append(names, t.Name)
		}
		return names
	}
	return slices.Sorted(maps.Keys(a.TaskStates))
}

func showTask(ctx context.Context, s *session.Session, a *api.Allocation, name string, used *api.AllocResourceUsage) {
	state := a.TaskStates[name]
	word := api.TaskStatePending
	if state != nil {
		word = state.State
	}
	note := ""
	if g := a.Group(); g != nil {
		if t := g.Task(name); t != nil && t.Lifecycle != nil {
			note = " (" + t.Lifecycle.Hook
			if t.Lifecycle.Sidecar {
				note += " sidecar"
			}
			note += ")"
		}
	}
	paused := ""
	if state != nil && state.Paused != "" {
		paused = " (" + state.Paused + ")"
	}
	s.Printf("\nTask %q%s is %q%s\n", name, note, word, paused)
	showResources(s, a, name, used)
	showVolumes(ctx, s, a, name)
	if state != nil {
		showEvents(s, state)
	}
}

func showResources(s *session.Session, a *api.Allocation, name string, used *api.AllocResourceUsage) {
	if a.AllocatedResources == nil || a.AllocatedResources.Tasks[name] == nil {
		return
	}
	r := a.AllocatedResources.Tasks[name]
	cpu := strconv.FormatInt(r.Cpu.CpuShares, 10) + " MHz"
	memory := view.Bytes(r.Memory.MemoryMB << 20)
	if used != nil && used.Tasks[name] != nil && used.Tasks[name].ResourceUsage != nil {
		u := used.Tasks[name].ResourceUsage
		if u.CpuStats != nil {
			cpu = strconv.FormatFloat(u.CpuStats.TotalTicks, 'f', 0, 64) + "/" + cpu
		}
		if u.MemoryStats != nil {
			memory = view.Bytes(int64(max(u.MemoryStats.RSS, u.MemoryStats.Usage))) + "/" + memory
		}
	}
	s.Print("Task Resources:\n", view.Table([]string{"CPU", "Memory", "Disk", "Addresses"},
		[]string{cpu, memory, view.Bytes(a.AllocatedResources.Shared.DiskMB << 20), addresses(r)}))
	if most := r.Memory.MemoryMaxMB; most > r.Memory.MemoryMB {
		s.Printf("Memory Max: %s\n", view.Bytes(most<<20))
	}
	if cores := r.Cpu.ReservedCores; len(cores) > 0 {
		s.Printf("Reserved Cores: %s\n", strings.Trim(strings.ReplaceAll(fmt.Sprint(cores), " ", ","), "[]"))
	}
	for _, d := range r.Devices {
		s.Printf("Device: %s/%s/%s [%s]\n", d.Vendor, d.Type, d.Name, strings.Join(d.DeviceIDs, ", "))
	}
	if used != nil && used.Tasks[name] != nil && used.Tasks[name].ResourceUsage != nil {
		showDeviceStats(s, used.Tasks[name].ResourceUsage.DeviceStats)
	}
}

func showDeviceStats(s *session.Session, groups []*api.DeviceGroupStats) {
	if text := rows.DeviceSummaries(groups); text != "" {
		s.Titled("Device Stats:", text)
	}
	if s.Bool("stats") {
		for _, d := range rows.DeviceStats(groups) {
			s.Titled("Device Stats of "+d.Name+":", d.Text)
		}
	}
}

func addresses(r *api.AllocatedTaskResources) string {
	var list []string
	for _, n := range r.Networks {
		for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
			list = append(list, fmt.Sprintf("%s: %s:%d", p.Label, n.IP, p.Value))
		}
	}
	return strings.Join(list, ", ")
}

// showVolumes lists the CSI volumes that a task mounts, and what their claims wait for.
func showVolumes(ctx context.Context, s *session.Session, a *api.Allocation, task string) {
	g := a.Group()
	if g == nil || g.Task(task) == nil {
		return
	}
	head := []string{"ID", "Read Only"}
	if s.Verbose {
		head = []string{"Name", "ID", "Plugin", "Provider", "Schedulable", "Read Only", "Mount Options"}
	}
	table := [][]string{head}
	for _, m := range g.Task(task).VolumeMounts {
		v := g.Volumes[m.Volume]
		if v == nil || v.Type != api.VolumeTypeCSI {
			continue
		}
		id := v.Source
		if v.PerAlloc {
			id += a.Name[max(strings.LastIndex(a.Name, "["), 0):]
		}
		readOnly := strconv.FormatBool(v.ReadOnly || m.ReadOnly)
		if !s.Verbose {
			table = append(table, []string{id, readOnly})
			continue
		}
		d, _, err := s.Volume(ctx, id, rest.Query{})
		if err != nil {
			d = &api.VolumeDetail{}
		}
		table = append(table, []string{v.Name, id, d.PluginID, d.Provider, strconv.FormatBool(d.Schedulable), readOnly, MountOptions(v.MountOptions.Over(d.MountOptions))})
	}
	if len(table) > 1 {
		s.Section("CSI Volumes:", table...)
	}
}

// MountOptions shows mount options in one cell.
func MountOptions(m *api.MountOptions) string {
	if m == nil {
		return "<none>"
	}
	var parts []string
	if m.FSType != "" {
		parts = append(parts, "fs_type: "+m.FSType)
	}
	if len(m.MountFlags) > 0 {
		parts = append(parts, "flags: "+strings.Join(m.MountFlags, ", "))
	}
	return view.OrNone(strings.Join(parts, " "))
}

func showEvents(s *session.Session, t *api.TaskState) {
	s.Titled("Task Events:", view.Pairs([2]string{"Started At", moment(t.StartedAt)}, [2]string{"Finished At", moment(t.FinishedAt)},
		[2]string{"Total Restarts", strconv.FormatUint(t.Restarts, 10)}, [2]string{"Last Restart", moment(t.LastRestart)}))
	table := [][]string{{"Time", "Type", "Description"}}
	var reasons []session.Reason
	for _, e := range slices.Backward(t.Events) {
		table = append(table, []string{view.UnixTime(e.Time), e.Type, e.DisplayMessage})
		reasons = append(reasons, session.Reason{Of: "the event at " + view.UnixTime(e.Time), Text: e.DisplayMessage})
	}
	s.Section("Recent Events:", table...)
	s.Reasons(reasons)
}

func moment(t time.Time) string { return view.Time(t) }
