package limits

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// Ask is what a task may use; zero is no limit.
type Ask struct {
	// CPU is its share of the processors in MHz: it counts when they are busy.
	CPU int64
	// Cores are the only cores that it runs on.
	Cores []int64
	// Memory is in bytes. Soft is what it keeps when memory of the host runs out, if it may use more than that.
	Memory, Soft int64
	// PIDs is the number of processes and threads.
	PIDs int64
	// Must is set when the task may not run without these limits. A task without it gets limits only in the cgroup that it
	// has anyway, so that its start takes no longer, and for its cores.
	Must bool
}

// Scope ends the names of the cgroups of tasks.
const Scope = ".scope"

// Cgroup is the cgroup of version 2 of a task with the name; empty when there is none.
func (h *Host) Cgroup(name string) string {
	if h == nil || h.unified == "" {
		return ""
	}
	return filepath.Join(h.unified, name+Scope)
}

// Set completes a specification with the cgroups of a task, of which Cgroup is defined, and with their limits.
func (h *Host) Set(s *frame.Spec, name string, a Ask) error {
	if a.Must {
		if err := h.Ready(); err != nil {
			return err
		}
	}
	if h == nil {
		return nil
	}
	if a.CPU > 0 {
		h.set(s, name, cpu, a.Must, map[int][]value{1: {{"cpu.shares", strconv.FormatInt(max(a.CPU, 2), 10), true}}, 2: {{"cpu.weight", weight(a.CPU), true}}})
	}
	if len(a.Cores) > 0 {
		h.setCores(s, name, a)
	}
	if !a.Must {
		return nil
	}
	if a.Memory > 0 || a.Soft > 0 {
		h.set(s, name, memory, true, memoryOf(a))
		s.Memory = a.Memory
	}
	if a.PIDs > 0 {
		most := []value{{"pids.max", strconv.FormatInt(a.PIDs, 10), true}}
		h.set(s, name, pids, true, map[int][]value{1: most, 2: most})
	}
	return nil
}

// value is the content of a file of a cgroup; must is unset when the kernel may have no such file.
type value struct {
	file, text string
	must       bool
}

// set adds values, those of the version of the controller.
func (h *Host) set(s *frame.Spec, name, controller string, must bool, of map[int][]value) {
	parent := h.held[controller]
	if parent == "" {
		return
	}
	version, dir := 1, filepath.Join(parent, name+Scope)
	if parent == h.unified {
		version = 2
	}
	switch {
	case version == 2 && s.Cgroup != dir, version == 1 && !must:
		return
	case version == 1:
		s.Scopes = append(s.Scopes, dir)
	}
	for _, v := range of[version] {
		s.Limits = append(s.Limits, frame.Limit{Dir: dir, File: v.file, Value: v.text, Must: must && v.must})
	}
}

// setCores holds a task to its cores; where that is not possible it begins on them all the same.
func (h *Host) setCores(s *frame.Spec, name string, a Ask) {
	parent := h.held[cpuset]
	if parent == "" {
		return
	}
	dir, list := filepath.Join(parent, name+Scope), make([]string, 0, len(a.Cores))
	for _, id := range a.Cores {
		list = append(list, strconv.FormatInt(id, 10))
	}
	cores := frame.Limit{Dir: dir, File: "cpuset.cpus", Value: strings.Join(list, ",")}
	if parent != h.unified {
		nodes, _ := os.ReadFile(filepath.Join(parent, "cpuset.mems"))
		s.Scopes = append(s.Scopes, dir)
		s.Limits = append(s.Limits, frame.Limit{Dir: dir, File: "cpuset.mems", Value: strings.TrimSpace(string(nodes))}, cores)
	} else if s.Cgroup == dir {
		s.Limits = append(s.Limits, cores)
	}
}

// memoryOf defines limits of memory. Swap would make a limit soft, and slow: there is none.
func memoryOf(a Ask) map[int][]value {
	var one, two []value
	if a.Soft > 0 {
		text := strconv.FormatInt(a.Soft, 10)
		one, two = append(one, value{"memory.soft_limit_in_bytes", text, false}), append(two, value{"memory.low", text, false})
	}
	if a.Memory > 0 {
		text := strconv.FormatInt(a.Memory, 10)
		one = append(one, value{"memory.limit_in_bytes", text, true}, value{"memory.memsw.limit_in_bytes", text, false})
		two = append(two, value{"memory.max", text, true})
	}
	return map[int][]value{1: append(one, value{"memory.swappiness", "0", false}), 2: append(two, value{"memory.swap.max", "0", false})}
}

// weight maps shares in MHz, whose default 100 corresponds to little and 1024 to one usual share, to
// cpu.weight, which is between 1 and 10000.
func weight(shares int64) string {
	return strconv.FormatInt(1+(min(max(shares, 2), 262144)-2)*9999/262142, 10)
}

// Scopes lists the cgroups of version 1 of a task with the name that exist.
func (h *Host) Scopes(name string) (out []string) {
	for _, parent := range h.Parents() {
		dir := filepath.Join(parent, name+Scope)
		if _, err := os.Stat(dir); err == nil && parent != h.unified {
			out = append(out, dir)
		}
	}
	return out
}

// Owns reports whether a path, clean and below the root of a hierarchy, is the cgroup of a task, or in one.
func (h *Host) Owns(path string) bool {
	for _, parent := range h.Parents() {
		if rest, below := strings.CutPrefix(path, parent+"/"); below {
			first, _, _ := strings.Cut(rest, "/")
			if strings.HasSuffix(first, Scope) {
				return true
			}
		}
	}
	return false
}

// mostPIDs is the part of the processes of the host, in percent, that one task may have.
const mostPIDs = 15

// DefaultPIDs is how many processes and threads a task may have when nothing else is configured: 15 percent of what the
// kernel allows.
var DefaultPIDs = sync.OnceValue(func() int64 {
	least := int64(1 << 22)
	for _, file := range []string{"pid_max", "threads-max"} {
		b, err := os.ReadFile("/proc/sys/kernel/" + file)
		if n, bad := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && bad == nil {
			least = min(least, n)
		}
	}
	return max(least*mostPIDs/100, 1)
})
