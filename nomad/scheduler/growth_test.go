package scheduler_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/soaktest"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
)

// growthMax is how a cost may grow with a count: linearly, and a little for larger memory. A busy machine makes it look
// like more, in either part of a comparison; growth that is more is so every time, so that a comparison has a few tries.
const (
	growthMax = 1.1
	triesMax  = 8
)

// cost is what one evaluation of the job takes: what it allocates, and the median processor time of five: a
// busy machine spoils caches, and a virtual one may count too little, the more so the shorter what is measured.
// So each of the five is as many evaluations as are said to be worth counting. Limits on time are wide: they
// tell one order of growth from another.
func cost(t *testing.T, nodes, filled int, j *api.Job, evals int) (cpu time.Duration, bytes uint64) {
	t.Helper()
	c := benchCluster(t, nodes)
	if filled > 0 {
		c.fill(nodes, filled, 50)
	}
	c.register(j)
	tx := c.store.Read()
	f := fleet.Build(tx.Index(), tx.Nodes(), tx.Allocs(api.AllNamespaces))
	e := &api.Evaluation{ID: c.id(), Namespace: "default", JobID: "j", Type: j.Type, Priority: 50}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	bytes = math.MaxUint64
	times := make([]time.Duration, 5)
	for i := range times {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := threadTime(t)
		for range evals {
			o := scheduler.Schedule(scheduler.Input{View: tx, Fleet: f, Eval: e, Now: c.now, NewID: c.id, Seed: 7})
			if len(placed(o)) == 0 {
				t.Fatal("nothing was placed")
			}
		}
		times[i] = (threadTime(t) - began) / time.Duration(evals)
		runtime.ReadMemStats(&after)
		bytes = min(bytes, (after.TotalAlloc-before.TotalAlloc)/uint64(evals))
	}
	slices.Sort(times)
	return times[len(times)/2], bytes
}

func threadTime(t *testing.T) time.Duration {
	const thisThread = 1 // RUSAGE_THREAD
	var r syscall.Rusage
	if err := syscall.Getrusage(thisThread, &r); err != nil {
		t.Skipf("processor time of a thread: %v", err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// exponent is p in cost ~ size^p.
func exponent(small, large float64, times float64) float64 {
	return math.Log(large/small) / math.Log(times)
}

func TestCostGrowsWithTheCountAtMostLinearly(t *testing.T) {
	soaktest.Only(t)
	for name, change := range map[string]func(*api.Job){
		"constraint": constrained, "affinity": attracted, "spread": spreadOut, "property": propertied, "ports": ported,
	} {
		t.Run(name, func(t *testing.T) {
			var tried []string
			for range triesMax {
				small, smallBytes := cost(t, 500, 0, benchJob("j", api.JobTypeService, 2000, change), 8)
				large, largeBytes := cost(t, 500, 0, benchJob("j", api.JobTypeService, 16_000, change), 1)
				if p := exponent(float64(smallBytes), float64(largeBytes), 8); p > growthMax {
					t.Errorf("memory grows with count^%.2f: %d, %d", p, smallBytes, largeBytes)
				}
				p := exponent(float64(small), float64(large), 8)
				if p <= growthMax {
					return
				}
				tried = append(tried, fmt.Sprintf("count^%.2f (%v, %v)", p, small, large))
			}
			t.Errorf("processor time grows with %s", strings.Join(tried, ", "))
		})
	}
}

func TestCostDoesNotGrowWithWhatRunsOnTheNodes(t *testing.T) {
	soaktest.Only(t)
	var tried []string
	for range triesMax {
		emptyTime, empty := cost(t, 100, 0, benchJob("j", api.JobTypeService, 1000), 8)
		fullTime, full := cost(t, 100, 150, benchJob("j", api.JobTypeService, 1000), 8)
		if float64(full) > growthMax*float64(empty) {
			t.Errorf("%d bytes on empty nodes, %d where 150 allocations run on each", empty, full)
		}
		if float64(fullTime) <= growthMax*float64(emptyTime) {
			return
		}
		tried = append(tried, fmt.Sprintf("%v on empty nodes, %v where 150 allocations run on each", emptyTime, fullTime))
	}
	t.Errorf("an evaluation takes %s", strings.Join(tried, "; "))
}

func TestPlacementCostGrowsWithTheLogarithmOfTheNodes(t *testing.T) {
	soaktest.Only(t)
	// Two counts give the cost of a placement without ranking the nodes.
	each := func(nodes int) float64 {
		few, _ := cost(t, nodes, 0, benchJob("j", api.JobTypeService, 1000, constrained), 8)
		many, _ := cost(t, nodes, 0, benchJob("j", api.JobTypeService, 9000, constrained), 1)
		return float64(many-few) / 8000
	}
	var tried []string
	for range triesMax {
		small, large := each(500), each(4000)
		if large <= growthMax*small*math.Log(4000)/math.Log(500) {
			return
		}
		tried = append(tried, fmt.Sprintf("%.0f ns on 500 nodes and %.0f ns on 4,000", small, large))
	}
	t.Errorf("a placement costs %s", strings.Join(tried, "; "))
}

// One job more with one allocation is what most evaluations are.
func TestOneMoreJobCostsLittleMoreOnMoreNodes(t *testing.T) {
	soaktest.Only(t)
	small, large := oneMore(t, 1000), oneMore(t, 8000)
	if large > 16<<10 || float64(large) > 2*float64(small) {
		t.Errorf("%d bytes on 1,000 nodes, %d on 8,000", small, large)
	}
}

// oneMore is what the evaluation of a job allocates after others of its shape, whose plans were carried out.
func oneMore(t *testing.T, nodes int) uint64 {
	c := benchCluster(t, nodes)
	c.register(benchJob("j", api.JobTypeService, 1, constrained))
	tx, f, memory := c.store.Read(), c.fleet(), &scheduler.RankingCache{}
	e := &api.Evaluation{ID: c.id(), Namespace: "default", JobID: "j", Type: api.JobTypeService, Priority: 50}
	least := uint64(math.MaxUint64)
	for range 20 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		o := scheduler.Schedule(scheduler.Input{View: tx, Fleet: f, Eval: e, Now: c.now, NewID: c.id, Seed: 7, Rankings: memory})
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
		edit := f.Edit()
		for _, a := range placed(o) {
			a.Job = o.Plan.Job
			edit.NewAlloc(a)
		}
		f = edit.Done(f.Index() + 1)
	}
	return least
}
