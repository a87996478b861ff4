package sim_test

import (
	"errors"
	"flag"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/sim"
)

var (
	seeds = flag.Int("seeds", seedsUsual, "how many seeds to play")
	from  = flag.Uint64("from", 1, "the first of them")
	seed  = flag.Uint64("seed", 0, "play this seed only and tell its story")
	steps = flag.Int("steps", sim.DefaultSteps, "how many steps a seed has before everything stops")
)

// TestSimulation plays seeds; `go test ./nomad/sim -run Simulation -seed N -v` tells the story of one.
func TestSimulation(t *testing.T) {
	if *seed != 0 {
		story, err := sim.Run(*seed, sim.Options{Steps: *steps})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(story)
		return
	}
	begin := time.Now()
	failure, tally := play(*from, uint64(*seeds), sim.NoBug)
	if failure != nil {
		t.Fatalf("%v\nplay it again: go test ./nomad/sim -run Simulation -steps %d -seed %d", failure, *steps, failure.Story.Seed)
	}
	t.Logf("%d seeds hold all invariants: %d events, %d claims made of which %d waited, %d expansions, %d faults; %.0f seeds/s",
		*seeds, tally.Events, tally.Claims, tally.Waited, tally.Grown, tally.Faults, float64(*seeds)/time.Since(begin).Seconds())
	if least := *seeds * *steps; tally.Events < least {
		t.Errorf("%d events are less than %d", tally.Events, least)
	}
}

// play plays n seeds from one on at once and answers the failure with the least seed, and what happened.
func play(from, n uint64, bug sim.Bug) (*sim.Failure, sim.Tally) {
	var next atomic.Uint64
	var mu sync.Mutex
	var first *sim.Failure
	var tally sim.Tally
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := from + next.Add(1) - 1
				mu.Lock()
				done := i >= from+n || first != nil && first.Story.Seed < i
				mu.Unlock()
				if done {
					return
				}
				story, err := sim.Run(i, sim.Options{Steps: *steps, Bug: bug})
				mu.Lock()
				tally.Add(story.Tally)
				if f := (*sim.Failure)(nil); errors.As(err, &f) && (first == nil || i < first.Story.Seed) {
					first = f
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return first, tally
}

// plantedWithin is within how many seeds each planted bug must be found; most are within ten.
const plantedWithin = 2000

// TestEveryPlantedBugIsCaught breaks each rule once and expects the simulation to tell.
func TestEveryPlantedBugIsCaught(t *testing.T) {
	if raced {
		t.Skip("one goroutine plays; the race detector has nothing to find here")
	}
	for _, bug := range sim.Bugs() {
		t.Run(string(bug), func(t *testing.T) {
			f, _ := play(1, plantedWithin, bug)
			if f == nil {
				t.Fatalf("%d seeds did not tell", plantedWithin)
			}
			t.Logf("seed %d after %d lines: %s", f.Story.Seed, len(f.Story.Lines), f.Broken)
		})
	}
}

// TestStoriesAreAboutSomething keeps the world lively: each of these happens within a few seeds.
func TestStoriesAreAboutSomething(t *testing.T) {
	all := ""
	for seed := range uint64(60) {
		story, err := sim.Run(seed+1, sim.Options{Steps: *steps})
		if err != nil {
			t.Fatal(err)
		}
		all += story.String()
	}
	for _, what := range []string{
		"instead of", "is cut off", "reachable again", "reboots", "is down", "is deposed", "give up", "mounts", "fails to unmount",
		"driver attaches", "driver detaches", "late: ", "it is free when", "intent", "does not exist", "forget", "ends its lease", "made made-", "deleted made-",
		"waits for", "single-node-multi-writer", "multi-node-reader-only", "was under way already",
		"refuses the secrets", "cannot detach", "writes x-attach", "all the same", "leader calls: written off", "block-device", "final", "limit", "uncertain", "done after verification", "capability changed",
		"host 1 of the controller restarts", "know a newer intent",
	} {
		if !strings.Contains(all, what) {
			t.Errorf("no story has %q", what)
		}
	}
}

// TestSameSeedTellsTheSameStory keeps failures reproducible.
func TestSameSeedTellsTheSameStory(t *testing.T) {
	o := sim.Options{Steps: *steps, Bug: sim.BugRestless}
	_, a := sim.Run(3, o)
	_, b := sim.Run(3, o)
	if a == nil || b == nil || a.Error() != b.Error() || !strings.Contains(a.Error(), "seed 3: ") {
		t.Fatalf("the stories differ:\n%v\n%v", a, b)
	}
	whole, _ := sim.Run(5, sim.Options{Steps: *steps})
	again, _ := sim.Run(5, sim.Options{Steps: *steps})
	if whole.String() != again.String() || whole.Tally != again.Tally {
		t.Fatal("the stories of seed 5 differ")
	}
}
