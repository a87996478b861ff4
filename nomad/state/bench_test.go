package state_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/cputimetest"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// running are allocations as they are when they run: shared job, resources and counts, own scores, port and
// task states.
func running(n int) []*api.Allocation {
	res := &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{
		"web": {Cpu: api.AllocatedCpuResources{CpuShares: 100}, Memory: api.AllocatedMemoryResources{MemoryMB: 64}},
	}, Shared: api.AllocatedSharedResources{DiskMB: 300}}
	base := api.AllocationMetric{NodesEvaluated: 5000, NodesInPool: 5000, NodePool: "default", NodesAvailable: map[string]int{"dc1": 5000}}
	scores := map[string]float64{"binpack": 0.5, "job-anti-affinity": 0}
	nodes := make([]string, 1000)
	for i := range nodes {
		nodes[i] = uuid.NewString()
	}
	var job *api.Job
	eval := ""
	list := make([]*api.Allocation, n)
	for i := range list {
		if i%100 == 0 {
			eval = uuid.NewString()
			job = &api.Job{ID: fmt.Sprint("job-", i/100), Namespace: "default", Type: "service", TaskGroups: []*api.TaskGroup{{
				Name: "web", Count: 100, Tasks: []*api.Task{{Name: "web", Driver: "exec", Config: map[string]any{"command": "/bin/server"}}},
			}}}
		}
		m, node := base, nodes[i*7%1000]
		m.ScoreMetaData = []*api.NodeScoreMeta{{NodeID: node, NormScore: 0.25, Scores: scores}}
		list[i] = &api.Allocation{
			ID: uuid.NewString(), Name: fmt.Sprintf("%s.web[%d]", job.ID, i%100), Namespace: "default", JobID: job.ID, Job: job, TaskGroup: "web",
			EvalID: eval, NodeID: node, NodeName: "client-" + node[:6], DesiredStatus: "run", ClientStatus: "running", AllocatedResources: res, Metrics: &m,
			CreateTime: 1_800_000_000_000_000_000 + int64(i), ModifyTime: 1_800_000_000_000_000_000 + int64(i),
			TaskStates: map[string]*api.TaskState{"web": {State: "running", Events: []*api.TaskEvent{
				{Type: "Received", Time: 1_800_000_000_000_000_000}, {Type: "Task Setup", Time: 1_800_000_000_000_000_000}, {Type: "Started", Time: 1_800_000_000_000_000_000},
			}}},
		}
	}
	return list
}

func live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkPutAllocs writes 100,000 allocations in transactions of 1,000 and prints how many that are in a
// second, what the tables need for each beyond the allocation itself, and what both need.
func BenchmarkPutAllocs(b *testing.B) {
	const n, batch = 100_000, 1000
	var spent time.Duration
	for b.Loop() {
		b.StopTimer()
		none := live()
		list, s := running(n), newStore(b)
		before, began := live(), cputimetest.Process()
		b.StartTimer()
		for i := 0; i < n; i += batch {
			write(s, uint64(10+i), func(tx *state.Txn) {
				for _, a := range list[i : i+batch] {
					tx.PutAlloc(a)
				}
			})
		}
		b.StopTimer()
		spent += cputimetest.Process() - began
		after := live()
		b.ReportMetric(float64(after-before)/n, "table-B/alloc")
		b.ReportMetric(float64(after-none)/n, "heap-B/alloc")
		b.StartTimer()
		runtime.KeepAlive(list)
		runtime.KeepAlive(s)
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "allocs/s")
	b.ReportMetric(float64(b.N)*n/spent.Seconds(), "allocs/cpu-s")
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N*n), "cpu-us/alloc")
}

// BenchmarkSnapshot saves and restores 100,000 allocations.
func BenchmarkSnapshot(b *testing.B) {
	const n = 100_000
	s := newStore(b)
	write(s, 10, func(tx *state.Txn) {
		for _, a := range running(n) {
			tx.PutAlloc(a)
		}
	})
	var file bytes.Buffer
	b.Run("save", func(b *testing.B) {
		began := cputimetest.Process()
		for b.Loop() {
			file.Reset()
			if err := s.Read().Dump(&file); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(file.Len())/1e6, "MB")
		b.ReportMetric((cputimetest.Process()-began).Seconds()/float64(b.N), "cpu-s")
	})
	s = nil
	b.Run("restore", func(b *testing.B) {
		var spent time.Duration
		for b.Loop() {
			b.StopTimer()
			to, before, began := newStore(b), live(), cputimetest.Process()
			b.StartTimer()
			if err := to.Restore(bytes.NewReader(file.Bytes())); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			spent += cputimetest.Process() - began
			b.ReportMetric(float64(live()-before)/n, "heap-B/alloc")
			runtime.KeepAlive(to)
			b.StartTimer()
		}
		b.ReportMetric(spent.Seconds()/float64(b.N), "cpu-s")
	})
}
