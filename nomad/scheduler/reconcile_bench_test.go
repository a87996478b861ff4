package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
)

// BenchmarkNothingToDo is a whole evaluation of a job of which everything runs, one allocation per node.
func BenchmarkNothingToDo(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			c := benchCluster(b, n)
			j := job("j", api.JobTypeService, n)
			c.register(j)
			c.run(j)
			c.setRunning("j")
			tx := c.store.Read()
			in := scheduler.Input{
				View: tx, Fleet: fleet.Build(tx.Index(), tx.Nodes(), tx.Allocs(api.AllNamespaces)), Now: c.now, NewID: c.id,
				Eval: &api.Evaluation{ID: c.id(), Namespace: "default", JobID: "j", Type: j.Type, TriggeredBy: api.TriggerJobRegister},
			}
			b.ReportAllocs()
			for b.Loop() {
				if o := scheduler.Schedule(in); !o.Empty() {
					b.Fatal("something was done")
				}
			}
		})
	}
}
