package kit

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mounts lists the mount points below the agent's directory in the host's namespace.
func (a *Agent) Mounts() []string {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		a.tb.Fatal(err)
	}
	defer f.Close()
	var mounts []string
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 4 && strings.HasPrefix(fields[4], a.Dir+"/") {
			mounts = append(mounts, fields[4])
		}
	}
	return mounts
}

// Sockets lists the unix sockets below the agent's directory.
func (a *Agent) Sockets() []string {
	body, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		a.tb.Fatal(err)
	}
	seen := map[string]bool{}
	var sockets []string
	for _, line := range strings.Split(string(body), "\n") {
		fields := strings.Fields(line)
		if n := len(fields); n > 0 && strings.HasPrefix(fields[n-1], a.Dir+"/") && !seen[fields[n-1]] {
			seen[fields[n-1]] = true
			sockets = append(sockets, fields[n-1])
		}
	}
	return sockets
}

// Processes lists the processes, other than the agent, that belong to the agent's directory: their
// command line, working directory or environment names it.
func (a *Agent) Processes() []int {
	a.foreign.Lock()
	defer a.foreign.Unlock()
	seen := map[int]sighting{}
	defer func() { a.foreign.seen = seen }()
	return a.processes(func(pid int) bool {
		var stat syscall.Stat_t
		if syscall.Stat("/proc/"+strconv.Itoa(pid), &stat) != nil {
			return false
		}
		s, known := a.foreign.seen[pid]
		if !known || s.inode != stat.Ino {
			s = sighting{inode: stat.Ino, first: time.Now()}
		}
		if s.last.Sub(s.first) < time.Second {
			if a.owns(pid) {
				return true
			}
			s.last = time.Now()
		}
		seen[pid] = s
		return false
	})
}

// foreign are the processes that do not belong to the agent's directory. Tests ask for the others up to fifty times a second,
// and reading the environment of every process of the machine was most of what they computed. A process that was just forked
// may name the directory only when it has executed its program, so one is foreign when it has not done so for a second.
type foreign struct {
	sync.Mutex
	seen map[int]sighting
}

// sighting is the inode of a process's directory in /proc, which another process with the same id does not have, and when it
// was first and last seen not to name the agent's directory.
type sighting struct {
	inode       uint64
	first, last time.Time
}

func (a *Agent) processes(which func(pid int) bool) []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || a.process != nil && pid == a.process.Process.Pid {
			continue
		}
		if which(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (a *Agent) owns(pid int) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	if cwd, err := os.Readlink(filepath.Join(proc, "cwd")); err == nil && strings.HasPrefix(cwd, a.Dir+"/") {
		return true
	}
	for _, file := range []string{"cmdline", "environ"} {
		if body, err := os.ReadFile(filepath.Join(proc, file)); err == nil && bytes.Contains(body, []byte(a.Dir+"/")) {
			return true
		}
	}
	return false
}

// holds reports whether a process has a file of the agent's directory open.
func (a *Agent) holds(pid int) bool {
	fds := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, _ := os.ReadDir(fds)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		path, err := os.Readlink(filepath.Join(fds, e.Name()))
		return err == nil && strings.HasPrefix(path, a.Dir+"/")
	})
}

// Lives reports whether a process runs: one that ended and was not reaped yet does not.
func Lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return after != "" && after[0] != 'Z' && after[0] != 'X'
}

// Goroutines is how many goroutines the agent has.
func (a *Agent) Goroutines() int {
	a.tb.Helper()
	self, err := a.API.Agent().Self()
	if err != nil {
		a.tb.Fatal(err)
	}
	n, err := strconv.Atoi(self.Stats["runtime"]["goroutines"])
	if err != nil {
		a.tb.Fatalf("runtime.goroutines: %v", err)
	}
	return n
}

// MemoryKB reads one line of a process's smaps_rollup, such as "Pss" or "Rss".
func (a *Agent) MemoryKB(pid int, what string) int {
	a.tb.Helper()
	body, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		a.tb.Fatal(err)
	}
	for _, line := range strings.Split(string(body), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == what+":" {
			n, _ := strconv.Atoi(fields[1])
			return n
		}
	}
	a.tb.Fatalf("pid %d: no %s", pid, what)
	return 0
}

// Supervisors lists the supervising processes of the agent's tasks.
func (a *Agent) Supervisors() []int {
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
		if err == nil && strings.HasPrefix(exe, a.Dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}
