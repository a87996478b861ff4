package main

import "syscall"

const (
	first       = -20
	prioProcess = 0
)

// hurry has this process go before others for the rest of its life, which is short, where it may: what must be done before
// another node has the volumes is many small steps of several threads, each of which waits for its turn on a busy host. Threads
// that begin later inherit it. Where the kernel groups processes by session, it is the session that goes before others.
func (l *lease) hurry() {
	if l.hurried {
		return
	}
	l.hurried = true
	writeFile("/proc/self/autogroup", "-20")
	for range 2 { // one may have begun another meanwhile
		for _, thread := range listDir("/proc/self/task") {
			_ = syscall.Setpriority(prioProcess, atoi(thread), first)
		}
	}
}
