package agent

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How much garbage may be in memory beside what is live: a fixed part, so that a small agent collects seldom, and
// a share of what is live, so that a big one does not need twice its size.
const (
	headroomBytes   = 64 << 20
	headroomPercent = 10
	percentLeast    = 40
	percentMost     = 150
)

// percentOf is the collector's percentage for so many live bytes.
func percentOf(live uint64) int {
	p := headroomPercent + 100*headroomBytes/max(live, 1)
	return int(min(max(p, percentLeast), percentMost))
}

// paceHeap sets the collector's percentage after each collection, unless GOGC says what it is to be.
func paceHeap() {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	now := 0
	var collected func(int)
	collected = func(int) {
		metrics.Read(live)
		if p := percentOf(live[0].Value.Uint64()); p != now {
			now = p
			debug.SetGCPercent(p)
		}
		runtime.AddCleanup(new([64]byte), collected, 0)
	}
	collected(0)
}
