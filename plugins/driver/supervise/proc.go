package supervise

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
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

// alive reports whether the process that started at ticks still runs; a zombie does not. Who cannot look, for want of
// descriptors, does not know that it has ended.
func alive(pid int, ticks uint64) bool {
	p, err := lookAt("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH)
	}
	return p.ticks == ticks && p.state != 'Z' && p.state != 'X'
}

var boot atomic.Pointer[string]

// bootID is the kernel's id of this boot; empty while it cannot be read.
func bootID() string {
	if id := boot.Load(); id != nil {
		return *id
	}
	b, err := readWhole("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	id := strings.TrimSpace(string(b))
	boot.Store(&id)
	return id
}

// anotherBoot reports whether a process is known to be of a boot that has ended.
func (id Ident) anotherBoot() bool {
	now := bootID()
	return id.Boot != "" && now != "" && id.Boot != now
}

func startTicks(pid int) (uint64, bool) {
	p, ok := stat(pid)
	return p.ticks, ok
}

func stat(pid int) (process, bool) { return statOf("/proc/" + strconv.Itoa(pid)) }

// statOf looks at a process, or a thread, by its directory.
func statOf(dir string) (process, bool) {
	p, err := lookAt(dir)
	return p, err == nil
}

func lookAt(dir string) (process, error) {
	fd, err := unix.Open(dir+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return process{}, err
	}
	defer unix.Close(fd)
	var b [1024]byte // the kernel gives a line of /proc whole, or not at all
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return process{}, err
	}
	p, ok := parseStat(b[:n])
	if !ok {
		return p, unix.EINVAL
	}
	return p, nil
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
	return max(time.Duration(now.Nano())-time.Duration(p.Ident().TaskTicks)*tick, 0)
}

// Usage measures the task's main process and all its descendants.
func (p *Process) Usage() (Usage, bool) {
	var u Usage
	page := uint64(os.Getpagesize())
	for _, pid := range descendants(p.Ident().PID) {
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
