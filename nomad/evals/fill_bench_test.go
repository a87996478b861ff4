package evals_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// BenchmarkFill fills 10,000 nodes with 1,000,000 allocations of 1,000 jobs: broker, schedulers, plans,
// the log's codec and the state. It prints placements per second, plans that were refused in part, and what
// one allocation holds of the heap. FILL_JOBS makes it smaller.
func BenchmarkFill(b *testing.B) {
	const nodes, count = 10_000, 1000
	jobs := 1000
	if n, err := strconv.Atoi(os.Getenv("FILL_JOBS")); err == nil {
		jobs = n
	}
	for b.Loop() {
		w := newWorld(b)
		w.write(func(tx *state.Txn) {
			for i := range nodes {
				tx.PutNode(benchNode(fmt.Sprintf("%08d-0000-0000-0000-000000000000", i)))
			}
		})
		before, began := heapBytes(), time.Now()
		for i := range jobs {
			w.job(fmt.Sprint("j", i), count, evalID(i))
		}
		done := 0
		ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
		err := state.Until(ctx, w.store, []state.Key{state.TableKey(state.TableEvals)}, func(tx *state.Txn) bool {
			for ; done < jobs; done++ {
				status := tx.Eval(evalID(done)).Status
				switch status {
				case api.EvalStatusComplete:
					continue
				case api.EvalStatusFailed, api.EvalStatusCancelled:
					b.Errorf("evaluation %d of %d is %s", done+1, jobs, status)
					return true
				}
				return false
			}
			return true
		})
		cancel()
		if err != nil || b.Failed() {
			b.Fatalf("%d of %d jobs were placed, the next one's evaluation is %+v: %v", done, jobs, w.store.Read().Eval(evalID(min(done, jobs-1))), err)
		}
		took := time.Since(began)
		b.ReportMetric(took.Seconds(), "s-total")
		b.ReportMetric(float64(jobs*count)/took.Seconds(), "placements/s")
		b.ReportMetric(float64(heapBytes()-before)/float64(jobs*count), "heap-B/alloc")
		b.ReportMetric(float64(w.service.Conflicts()), "plan-conflicts")
		w.stop()
		runtime.KeepAlive(w)
	}
	b.ReportMetric(0, "ns/op")
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
