package workgroup

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// EndWait bounds how long [Group.Wait] waits for running work. Work that still runs then hangs in the kernel: contexts end
// all other work.
const EndWait = 30 * time.Second

// Group is work under way, by name. The zero value is ready.
type Group struct {
	mu      sync.Mutex
	running map[string]int
	all     sync.WaitGroup
}

// Go runs a function in its own goroutine.
func (g *Group) Go(name string, do func()) {
	g.mu.Lock()
	if g.running == nil {
		g.running = map[string]int{}
	}
	g.running[name]++
	g.mu.Unlock()
	g.all.Go(func() {
		defer g.end(name)
		do()
	})
}

func (g *Group) end(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[name]--; g.running[name] == 0 {
		delete(g.running, name)
	}
}

// Wait waits until all work has ended, no longer than [EndWait], and names what has not.
func (g *Group) Wait() (left []string) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		g.all.Wait()
	}()
	timer := time.NewTimer(EndWait)
	defer timer.Stop()
	select {
	case <-over:
		return nil
	case <-timer.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.running))
}
