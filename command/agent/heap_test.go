package agent

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestHeadroomShrinksAsMoreIsLive(t *testing.T) {
	for live, want := range map[uint64]int{
		0: percentMost, 8 << 20: percentMost, 100 << 20: percentMost, 128 << 20: 100, 160 << 20: 60, 256 << 20: percentLeast, 8 << 30: percentLeast,
	} {
		if got := percentOf(live); got != want {
			t.Errorf("%d MiB live: %d %%, want %d", live>>20, got, want)
		}
	}
}

// TestCollectorFollowsTheLiveHeap makes much live and then nothing.
func TestCollectorFollowsTheLiveHeap(t *testing.T) {
	followHeap()
	percent := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	until := func(what string, holds func(uint64) bool) {
		for end := time.Now().Add(30 * time.Second); !holds(percent()); runtime.GC() {
			if time.Now().After(end) {
				t.Fatalf("%s: GOGC is %d", what, percent())
			}
		}
	}
	until("little is live", func(p uint64) bool { return p == percentMost })
	ballast := make([]byte, 160<<20)
	until("much is live", func(p uint64) bool { return p <= 60 })
	runtime.KeepAlive(ballast)
	until("little is live again", func(p uint64) bool { return p == percentMost })
}
