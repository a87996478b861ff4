package evals_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/evals"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// BenchmarkSubmitToPlaced registers jobs on 1,000 nodes and waits until all is placed: broker,
// scheduler, plan and an in-memory log.
func BenchmarkSubmitToPlaced(b *testing.B) {
	for _, c := range []struct{ jobs, count int }{{500, 1}, {1, 5000}} {
		b.Run(fmt.Sprintf("jobs=%d/count=%d", c.jobs, c.count), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				w := newWorld(b)
				w.write(func(tx *state.Txn) {
					for i := range 1000 {
						tx.PutNode(benchNode(fmt.Sprintf("%08d-0000-0000-0000-000000000000", i)))
					}
				})
				begin := time.Now()
				b.StartTimer()
				for i := range c.jobs {
					w.job(fmt.Sprint("j", i), c.count, evalID(i))
				}
				done := 0
				w.until("all placed", []state.Key{state.TableKey(state.TableEvals)}, func(tx *state.Txn) bool {
					for done < c.jobs && tx.Eval(evalID(done)).Status == api.EvalStatusComplete {
						done++
					}
					return done == c.jobs
				})
				b.ReportMetric(float64(c.jobs*c.count)/time.Since(begin).Seconds(), "placements/s")
				w.stop()
			}
		})
	}
}

func benchNode(id string) *api.Node {
	return &api.Node{
		ID: id, Name: id, Datacenter: "dc1", Status: api.NodeStatusReady, ComputedClass: "c",
		SchedulingEligibility: api.NodeSchedulingEligible,
		Drivers:               map[string]*api.DriverInfo{"mock": {Detected: true, Healthy: true}},
		NodeResources: &api.NodeResources{
			Cpu: api.NodeCpuResources{CpuShares: 64_000}, Memory: api.NodeMemoryResources{MemoryMB: 64_000},
			Disk: api.NodeDiskResources{DiskMB: 64_000},
		},
	}
}

// BenchmarkNewTerm is how long a job that is registered when a term begins waits for its placement, beside none and
// beside many that are blocked.
func BenchmarkNewTerm(b *testing.B) {
	for _, waiting := range []int{0, 100_000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				w := unled(b)
				w.node("n1")
				w.blockedBefore(waiting)
				w.node("n2")
				b.StartTimer()
				w.lead(evals.Config{})
				w.job("j", 1, evalID(1))
				w.untilLive("j", 1)
				b.StopTimer()
				w.stop()
				b.StartTimer()
			}
		})
	}
}
