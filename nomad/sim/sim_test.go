package sim_test

import (
	"flag"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/sim"
)

var (
	seeds = flag.Int("seeds", seedsUsual, "how many seeds to play")
	seed  = flag.Uint64("seed", 0, "play this seed only and tell its story")
	steps = flag.Int("steps", 150, "how many steps a seed has before everything stops")
)

// TestSimulation plays seeds; `go test ./nomad/sim -run Simulation -seed N` tells the story of one.
func TestSimulation(t *testing.T) {
	if *seed != 0 {
		if f := sim.Run(*seed, *steps, sim.NoBug); f != nil {
			report(t, f)
			return
		}
		t.Log(sim.Tell(*seed, *steps))
		return
	}
	first := firstFailure(uint64(*seeds), sim.NoBug)
	if first != nil {
		report(t, first)
		return
	}
	t.Logf("%d seeds of %d steps hold all invariants", *seeds, *steps)
}

func report(t *testing.T, f *sim.Failure) {
	t.Helper()
	t.Errorf("seed %d: %s\n%s\nplay it again: go test ./nomad/sim -run Simulation -seed %d", f.Seed, f.Broken, strings.Join(f.Story, "\n"), f.Seed)
}

// firstFailure plays seeds 1..n and answers the failure with the least seed.
func firstFailure(n uint64, bug sim.Bug) *sim.Failure {
	var next atomic.Uint64
	var mu sync.Mutex
	var first *sim.Failure
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := next.Add(1)
				mu.Lock()
				done := i > n || first != nil && first.Seed < i
				mu.Unlock()
				if done {
					return
				}
				if f := sim.Run(i, *steps, bug); f != nil {
					mu.Lock()
					if first == nil || f.Seed < first.Seed {
						first = f
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return first
}

// TestEveryPlantedBugIsCaught breaks each rule once and expects the simulation to tell.
func TestEveryPlantedBugIsCaught(t *testing.T) {
	for _, bug := range sim.Bugs() {
		t.Run(string(bug), func(t *testing.T) {
			f := firstFailure(300, bug)
			if f == nil {
				t.Fatal("300 seeds did not tell")
			}
			t.Logf("seed %d after %d lines: %s", f.Seed, len(f.Story), f.Broken)
		})
	}
}

// TestStoriesAreAboutSomething keeps the world lively: each of these happens within a few seeds.
func TestStoriesAreAboutSomething(t *testing.T) {
	all := ""
	for seed := range uint64(60) {
		all += sim.Tell(seed+1, *steps)
	}
	for _, what := range []string{
		"instead of", "is cut off", "reachable again", "reboots", "is down", "is deposed", "give up", "mounts", "fails to unmount",
		"driver attaches", "driver detaches", "late: ", "it is free when", "intent", "does not exist", "forget", "ends its lease", "made made-", "deleted made-",
	} {
		if !strings.Contains(all, what) {
			t.Errorf("no story has %q", what)
		}
	}
}

// TestSameSeedTellsTheSameStory keeps failures reproducible.
func TestSameSeedTellsTheSameStory(t *testing.T) {
	a, b := sim.Run(3, *steps, sim.BugRestless), sim.Run(3, *steps, sim.BugRestless)
	if a == nil || b == nil || strings.Join(a.Story, "\n") != strings.Join(b.Story, "\n") || a.Broken != b.Broken {
		t.Fatal("the stories differ")
	}
}
