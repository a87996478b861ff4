package escape

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// Bounds of what hostile tasks may cost the agent.
const (
	descriptorsMax = 150
	memoryMaxKB    = 200 << 10
	threadsMax     = 40
	endMax         = killTimeout + 30*time.Second
	// leftMax is how many more descriptors and goroutines an agent may have when all is over.
	leftMax = 25
)

// TestHostileTasksStayInTheirAllocations: they reach nothing outside, cost little, and end when they are told to.
func TestHostileTasksStayInTheirAllocations(t *testing.T) {
	b := newBed(t)
	before := b.guarded()
	files, memory, goroutines := b.descriptors(), b.MemoryKB(b.PID(), "Rss"), b.Goroutines()
	b.Register(b.husk())
	ways := 0
	for _, kind := range sortedKinds() {
		ways += len(kinds[kind])
		b.Register(b.job(kind))
	}
	b.Until(30*time.Second, "all to run", func() error {
		if n := len(b.running()); n < len(kinds) {
			return fmt.Errorf("%d of %d jobs run", n, len(kinds))
		}
		return nil
	})

	seconds := soaktest.Rounds(8, 40) // races need their turns
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second)
	defer cancel()
	w := newWatch(b)
	done := make(chan struct{})
	go func() { defer close(done); w.run(ctx) }()
	mostFiles, mostMemory, mostThreads := 0, 0, 0
	for tick := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; <-tick.C {
		mostFiles, mostMemory = max(mostFiles, b.descriptors()), max(mostMemory, b.MemoryKB(b.PID(), "Rss"))
		mostThreads = max(mostThreads, b.threads())
	}
	<-done
	restarts := b.restarts()
	for kind, share := range w.shares() {
		if share < 50 {
			t.Errorf("the tasks of %s were there for %d %% of the time", kind, share)
		}
	}
	if mostFiles > files+descriptorsMax {
		t.Errorf("the agent had %d descriptors before and %d meanwhile", files, mostFiles)
	}
	if mostThreads > threadsMax {
		t.Errorf("the agent had %d threads meanwhile", mostThreads)
	}
	if mostMemory > memory+memoryMaxKB {
		t.Errorf("the agent had %d MiB before and %d MiB meanwhile", memory>>10, mostMemory>>10)
	}
	out, _ := b.Run("alloc", "fs", b.running()["names"][0], "alloc/data")
	if strings.ContainsAny(out, "\x1b\a\r") {
		t.Errorf("names reach the terminal as they are: %q", out)
	}

	for _, kind := range append(sortedKinds(), "husk") {
		b.Stop(kind, false)
	}
	took := b.Until(60*time.Second, "all to end", func() error {
		if left := b.running(); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	if took > endMax {
		t.Errorf("the end took %s, with a kill_timeout of %s", took, killTimeout)
	}
	if left := b.hostile(); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
	for _, kind := range append(sortedKinds(), "husk") {
		b.Stop(kind, true)
	}
	removed := b.Until(60*time.Second, "the allocations to be removed", func() error {
		_ = b.API.System().GarbageCollect()
		left, err := filepath.Glob(filepath.Join(b.Dir, "data", "alloc", "*"))
		if err != nil || len(left) != 1 || left[0] != b.other {
			return fmt.Errorf("%v %v", left, err)
		}
		return nil
	})
	if after := b.guarded(); after != before {
		t.Errorf("what is outside has changed:\n%sbefore:\n%s", after, before)
	}
	if out := b.escapes(); out != "" {
		t.Errorf("ways out:\n%s", out)
	}
	if out := b.strays(); out != "" {
		t.Errorf("strange things among the agent's own:\n%s", out)
	}
	b.Until(15*time.Second, "the agent to be as it was", func() error {
		if f, g := b.descriptors(), b.Goroutines(); f > files+leftMax || g > goroutines+leftMax {
			return fmt.Errorf("it had %d descriptors and %d goroutines, and has %d and %d", files, goroutines, f, g)
		}
		return nil
	})
	kit.Measured(t, fmt.Sprintf("escape: %d ways in %d s beside %d requests and %d restarts: descriptors %d, at most %d; memory %d MiB, at most %d; threads at most %d; ended in %s, removed in %s",
		ways, seconds, w.asked.Load(), restarts, files, mostFiles, memory>>10, mostMemory>>10, mostThreads, took.Round(10*time.Millisecond), removed.Round(10*time.Millisecond)))
}

// hostile are the processes of nobody that belong to the agent.
func (b *bed) hostile() (left []string) {
	for _, pid := range b.Processes() {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil && strings.Contains(string(status), "Uid:\t65534") && kit.Lives(pid) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			left = append(left, fmt.Sprint(pid, " ", strings.ReplaceAll(string(line), "\x00", " ")))
		}
	}
	return left
}
