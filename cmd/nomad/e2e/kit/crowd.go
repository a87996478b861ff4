package kit

import (
	"runtime"
	"syscall"
	"time"
)

// Within reports whether a measured time is below its bar. What is above it fails no test before half a minute has gone by,
// which grows with what others take of the machine, now or at an earlier time: the figures are in the table and in the
// benchmarks, and a test that fails by them fails where nothing is wrong.
func Within(got, bar time.Duration, earlier float64) bool {
	const slow = 30 * time.Second
	return got <= max(bar, slow) || got <= time.Duration(float64(max(bar, slow))*max(earlier, Crowding()))
}

// Crowding is how much longer work takes because others use the processors too: the time by the clock
// over the time that a busy thread got. It is 1 on an idle machine.
func Crowding() float64 {
	const spin = 50 * time.Millisecond
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		const thisThread = 1 // RUSAGE_THREAD
		var u syscall.Rusage
		if err := syscall.Getrusage(thisThread, &u); err != nil {
			return 0
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began, before := time.Now(), used()
	for used()-before < spin && time.Since(began) < 100*spin {
	}
	return max(1, float64(time.Since(began))/float64(spin))
}
