package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// isIdle reports whether this process is the task of one that supervises the processes of a container: it does nothing.
func isIdle() bool {
	_, found := syscall.Getenv(frame.IdleKey)
	return found
}

func idle() {
	for {
		poll([]pollFD{{-1, 0, 0}}, -1)
	}
}

// eachContained calls do with each process of the container that has not ended. A container has no other ending: the engine
// may not respond, and what it has started is not below this process.
func (s *supervisor) eachContained(do func(pid int)) {
	if s.spec.Container == "" {
		return
	}
	for _, name := range listDir("/proc") {
		if pid := atoi(name); pid > 0 && contains(readFile("/proc/"+name+"/cgroup"), s.spec.Container) && !hasEnded(name) {
			do(pid)
		}
	}
}

func (s *supervisor) contained() (yes bool) {
	s.eachContained(func(int) { yes = true })
	return yes
}

// hasEnded reports whether all threads of a process have ended: it is only still listed.
func hasEnded(pid string) bool {
	stat := readFile("/proc/" + pid + "/stat")
	return stat == "" || stateOf(stat) == 'Z' && len(listDir("/proc/"+pid+"/task")) < 2
}

func contains(text, part string) bool {
	for i := 0; i+len(part) <= len(text); i++ {
		if text[i:i+len(part)] == part {
			return true
		}
	}
	return false
}
