package state_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/cputimetest"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// BenchmarkSmall writes transactions of one job, one evaluation and one allocation each on top of 100,000
// allocations.
func BenchmarkSmall(b *testing.B) {
	s := newStore(b)
	list := running(100_000)
	write(s, 10, func(tx *state.Txn) {
		for _, a := range list {
			tx.PutAlloc(a)
		}
	})
	res := list[0].AllocatedResources
	index, began := uint64(10), cputimetest.Process()
	b.ReportAllocs()
	for b.Loop() {
		index++
		job := &api.Job{ID: fmt.Sprint("small-", index), Namespace: "default", TaskGroups: []*api.TaskGroup{{Name: "web"}}}
		eval := &api.Evaluation{ID: uuid.NewString(), Namespace: "default", JobID: job.ID}
		alloc := &api.Allocation{
			ID: uuid.NewString(), Namespace: "default", JobID: job.ID, Job: job, TaskGroup: "web", ClientStatus: "pending",
			EvalID: eval.ID, NodeID: list[int(index)*7919%len(list)].NodeID, AllocatedResources: res,
		}
		write(s, index, func(tx *state.Txn) {
			tx.PutJob(job)
			tx.PutJobVersion(job)
			tx.PutEval(eval)
			tx.PutAlloc(alloc)
		})
	}
	b.ReportMetric(float64((cputimetest.Process()-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
}
