package supervise

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

type process struct {
	pid, parent, session int
	state                byte
	ticks                uint64
	utime, stime         uint64
	rssPages             uint64
}

// alive tells whether the process that started at ticks still runs; a zombie does not.
func alive(pid int, ticks uint64) bool {
	p, ok := stat(pid)
	return ok && p.ticks == ticks && p.state != 'Z' && p.state != 'X'
}

// bootID is the kernel's id of this boot; empty when it does not tell.
var bootID = sync.OnceValue(func() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
})

func startTicks(pid int) (uint64, bool) {
	p, ok := stat(pid)
	return p.ticks, ok
}

func stat(pid int) (process, bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return process{}, false
	}
	defer unix.Close(fd)
	var b [1024]byte // the kernel gives a line of /proc whole, or not at all
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return process{}, false
	}
	return parseStat(b[:n])
}

// parseStat reads a line of /proc/<pid>/stat; the name in parentheses may hold anything.
func parseStat(b []byte) (process, bool) {
	open, shut := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || shut < open {
		return process{}, false
	}
	f := strings.Fields(string(b[shut+1:]))
	if len(f) < 22 {
		return process{}, false
	}
	num := func(i int) uint64 { n, _ := strconv.ParseUint(f[i], 10, 64); return n }
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	return process{
		pid: pid, state: f[0][0], parent: int(num(1)), session: int(num(3)), utime: num(11), stime: num(12),
		ticks: num(19), rssPages: num(21),
	}, err == nil
}

func processes() []process {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []process
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil {
			continue
		}
		if p, ok := stat(pid); ok {
			out = append(out, p)
		}
	}
	return out
}

// Usage is what a task's processes use.
type Usage struct {
	// User and System are processor time since the start.
	User, System time.Duration
	RSSBytes     uint64
	// PIDs are the processes of the task.
	PIDs []int
}

const tick = 10 * time.Millisecond // USER_HZ is 100 on Linux

// Age is for how long the task's main process has lived, whatever was done to the host's clock meanwhile.
func (p *Process) Age() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return max(time.Duration(now.Nano())-time.Duration(p.ident.TaskTicks)*tick, 0)
}

// Usage measures the task's main process and all its descendants.
func (p *Process) Usage() (Usage, bool) {
	var u Usage
	page := uint64(os.Getpagesize())
	queue := children(p.ident.PID)
	for len(queue) > 0 {
		pid := queue[0]
		queue = append(queue[1:], children(pid)...)
		s, ok := stat(pid)
		if !ok {
			continue
		}
		u.User += time.Duration(s.utime) * tick
		u.System += time.Duration(s.stime) * tick
		u.RSSBytes += s.rssPages * page
		u.PIDs = append(u.PIDs, pid)
	}
	return u, len(u.PIDs) > 0
}

// Remain is a process of a task that is left, with the kernel's letter for its state and the kernel's function that
// it waits in, if that is known.
type Remain struct {
	PID   int
	Name  string
	State byte
	In    string
}

// Remains lists the processes of the task that have not ended, also when the supervising process has given up on
// them: those in the task's own cgroup, else the descendants of a supervising process that is there, or the orphans of one
// that has vanished.
func (p *Process) Remains() (out []Remain) {
	for _, pid := range p.pids() {
		dir := "/proc/" + strconv.Itoa(pid) + "/"
		s, ok := stat(pid)
		if !ok || s.state == 'Z' || s.state == 'X' || isHelper(pid) {
			continue
		}
		name, _ := os.ReadFile(dir + "comm")
		in, _ := os.ReadFile(dir + "wchan")
		out = append(out, Remain{PID: pid, Name: strings.TrimSpace(string(name)), State: s.state, In: strings.Trim(string(in), "0")})
	}
	return out
}

func (p *Process) pids() []int {
	if !alive(p.ident.PID, p.ident.Ticks) {
		return append(p.inCgroup(), p.orphans()...)
	}
	if p.ident.Cgroup == "" {
		u, _ := p.Usage()
		return u.PIDs
	}
	return p.inCgroup()
}

// orphans are what a supervising process left that has vanished without a record.
func (p *Process) orphans() []int {
	select {
	case <-p.done:
		if p.exit.Lost {
			return orphans(p.ident)
		}
	default:
	}
	return nil
}

func (p *Process) inCgroup() (out []int) {
	if p.ident.Cgroup == "" {
		return nil
	}
	raw, err := os.ReadFile(p.ident.Cgroup + "/cgroup.procs")
	if err != nil {
		return nil
	}
	for _, f := range strings.Fields(string(raw)) {
		if pid, err := strconv.Atoi(f); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// children lists the direct children of all threads of a process.
func children(pid int) []int {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []int
	for _, t := range threads {
		b, err := os.ReadFile(dir + "/" + t.Name() + "/children")
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}
