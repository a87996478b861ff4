package cluster

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seeds    = flag.Int("seeds", seedsUsual, "how many seeds to play")
	from     = flag.Uint64("from", 1, "the first of them")
	seed     = flag.Uint64("seed", 0, "play this seed only and tell its story")
	messages = flag.Bool("messages", false, "tell of each message, throw of dice and write to a disk too")
	steps    = flag.Int("steps", 500, "how many events a seed has before all faults cease")
)

// lastLines is how much of a story a failure tells.
const lastLines = 80

// play plays one seed.
func play(t *testing.T, seed uint64, o Options) (w *World) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { w = Run(seed, o) })
	return w
}

func (w *World) last() string {
	return strings.Join(w.lines[max(0, len(w.lines)-lastLines):], "\n")
}

// TestSimulation plays seeds; `go test ./nomad/sim/cluster -run Simulation -seed N -v` tells the story of one.
func TestSimulation(t *testing.T) {
	if *seed != 0 {
		w := play(t, *seed, Options{Steps: *steps})
		if w.broken != "" {
			t.Fatalf("seed %d: %s\n%s", *seed, w.broken, w.Story())
		}
		t.Logf("%s\n%+v", w.Story(), w.tally)
		return
	}
	begin := time.Now()
	first, tally := playAll(t, *from, uint64(*seeds), NoBug)
	if first != nil {
		t.Fatalf("seed %d: %s\n%s\nplay it again: go test ./nomad/sim/cluster -run Simulation -v -steps %d -seed %d",
			first.seed, first.broken, first.last(), *steps, first.seed)
	}
	t.Logf("%d seeds hold all invariants in %s: %+v", *seeds, time.Since(begin).Round(time.Millisecond), tally)
	if tally.Events < *seeds**steps {
		t.Errorf("%d events are less than %d", tally.Events, *seeds**steps)
	}
}

// playAll plays n seeds from one on, several at once, and answers the broken one with the least number.
func playAll(t *testing.T, from, n uint64, bug Bug) (first *World, tally Tally) {
	t.Helper()
	var next atomic.Uint64
	var mu sync.Mutex
	t.Run("seeds", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for {
					i := from + next.Add(1) - 1
					mu.Lock()
					done := i >= from+n || first != nil && first.seed < i
					mu.Unlock()
					if done {
						return
					}
					w := play(t, i, Options{Steps: *steps, Bug: bug})
					mu.Lock()
					tally.add(w.tally)
					if w.broken != "" && (first == nil || w.seed < first.seed) {
						first = w
					}
					mu.Unlock()
				}
			})
		}
	})
	return first, tally
}
