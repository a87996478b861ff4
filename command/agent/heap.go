package agent

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// With little live a collection is cheap but soon the next one is due; with much live every hundred per cent cost
// as much memory as all that is live. So the heap may grow to two and a half times what is live as long as that
// is little memory, and then stays there until what is live needs more.
const (
	smallBytes   = 256 << 20
	percentMost  = 150
	percentLeast = 40
)

// percentOf is the collector's percentage for so many live bytes.
func percentOf(live uint64) int {
	spare := int64(smallBytes) - int64(live)
	return int(min(max(100*spare/max(int64(live), 1), percentLeast), percentMost))
}

// paceHeap follows the heap of the process, however many agents are in it, unless GOGC says what the percentage is.
var paceHeap = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		followHeap()
	}
})

// followHeap sets the collector's percentage now and after each collection.
func followHeap() {
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
