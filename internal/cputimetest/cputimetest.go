// Package cputimetest measures processor time for benchmarks and bounds of tests: other programs on the machine move it less
// than the clock.
package cputimetest

import (
	"syscall"
	"time"
)

// Process is the user and system time of all threads of this process, garbage collection included; 0 where the
// system does not report it.
func Process() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
