package engine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Kill kills a process of a container, what descends from it, and what is in its session. It reports false when the
// process is not one of the container on this host.
func Kill(pid int, container string) bool {
	first := Process(pid, container)
	if first == nil {
		return false
	}
	defer first.Close()
	for _, member := range family(pid) {
		if f := Process(member, container); f != nil {
			_ = unix.PidfdSendSignal(int(f.Fd()), unix.SIGKILL, nil, 0)
			_ = f.Close()
		}
	}
	_ = unix.PidfdSendSignal(int(first.Fd()), unix.SIGKILL, nil, 0)
	return true
}

// family lists the descendants of a process and the members of the session that it leads.
func family(pid int) (out []int) {
	parents, sessions := map[int]int{}, map[int]int{}
	names, _ := os.ReadDir("/proc")
	for _, name := range names {
		if n, err := strconv.Atoi(name.Name()); err == nil {
			parents[n], sessions[n] = stat(n)
		}
	}
	for n := range parents {
		for p := n; p > 1; p = parents[p] {
			if p == pid || sessions[p] == pid {
				out = append(out, n)
				break
			}
		}
	}
	return out
}

// stat reads the parent and the session of a process.
func stat(pid int) (parent, session int) {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(line[bytes.LastIndexByte(line, ')')+1:]), " ")
	var state string
	var group int
	_, _ = fmt.Sscan(rest, &state, &parent, &group, &session)
	return parent, session
}
