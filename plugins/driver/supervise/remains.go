package supervise

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
)

// Remain is a process of a task that is left, with the kernel's letter for its state and the kernel's function that
// it waits in, if that is known.
type Remain struct {
	PID   int
	Name  string
	State byte
	In    string
}

// Remains lists the processes of the task that have not ended, also when the supervising process has abandoned them:
// those in the task's own cgroup, the descendants of a supervising process that is there, and the orphans of one that
// is not. A process that has not yet executed the task's program does nothing more once it is killed, and is left out.
func (p *Process) Remains() (out []Remain) {
	for _, pid := range p.pids() {
		if r, ok := remain(pid); ok && !isHelper(pid) && !isSupervising(pid) {
			out = append(out, r)
		}
	}
	return out
}

// remain looks at a process; it reports false for one that has ended.
func remain(pid int) (Remain, bool) {
	list := threads(pid)
	if len(list) == 0 {
		return Remain{}, false
	}
	at := max(0, slices.IndexFunc(list, func(t process) bool { return t.state == 'D' }))
	dir := "/proc/" + strconv.Itoa(pid)
	name, _ := os.ReadFile(dir + "/comm")
	in, _ := os.ReadFile(dir + "/task/" + strconv.Itoa(list[at].pid) + "/wchan")
	return Remain{PID: pid, Name: strings.TrimSpace(string(name)), State: list[at].state, In: strings.Trim(string(in), "0")}, true
}

// threads are those of a process that have not ended; it lives as long as one of them. The first one may end before the
// others, and one that waits for storage holds up the end of all.
func threads(pid int) (out []process) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	names, _ := os.ReadDir(dir)
	for _, t := range names {
		if s, ok := statOf(dir + t.Name()); ok && s.state != 'Z' && s.state != 'X' {
			out = append(out, s)
		}
	}
	return out
}

// isSupervising reports whether a process runs the supervising program, also as one that is about to run a task's.
func isSupervising(pid int) bool {
	exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return err == nil && strings.HasPrefix(filepath.Base(exe), programName)
}

func (p *Process) pids() []int {
	id := p.Ident()
	out, _ := cgroups.GetPids(id.Cgroup)
	for _, dir := range id.Scopes {
		more, _ := cgroups.GetPids(dir)
		out = append(out, more...)
	}
	if alive(id.PID, id.Ticks) {
		out = append(out, descendants(id.PID)...)
	} else {
		out = append(out, p.orphans()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// orphans are what a supervising process left that has vanished without a record.
func (p *Process) orphans() (out []int) {
	select {
	case <-p.done:
		if p.exit.Lost {
			for _, o := range orphans(p.Ident()) {
				out = append(out, o.pid)
			}
		}
	default:
	}
	return out
}

// descendants are all processes below one.
func descendants(pid int) (out []int) {
	for queue := children(pid); len(queue) > 0; {
		pid, queue = queue[0], queue[1:]
		out = append(out, pid)
		queue = append(queue, children(pid)...)
	}
	return out
}
