package fleet_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
)

// BenchmarkPutAlloc commits one allocation more to a fleet, and takes the oldest of its row away, as
// verification and the roster do with plans of small jobs.
func BenchmarkPutAlloc(b *testing.B) {
	const nodes = 1000
	alloc := func(n int) *api.Allocation {
		return &api.Allocation{ID: fmt.Sprintf("%08x-0000-0000-0000-000000000000", n), NodeID: fmt.Sprint("n", n%nodes)}
	}
	for _, each := range []int{5, 100} {
		b.Run(fmt.Sprintf("each=%d", each), func(b *testing.B) {
			e := fleet.New().Edit()
			for i := range nodes {
				e.PutNode(&api.Node{ID: fmt.Sprint("n", i)})
			}
			for i := range nodes * each {
				e.NewAlloc(alloc(i))
			}
			f := e.Done(1)
			next := nodes * each
			b.ReportAllocs()
			for b.Loop() {
				e := f.Edit()
				e.PutAlloc(alloc(next))
				e.DeleteAlloc(alloc(next - nodes*each))
				f = e.Done(1)
				next++
			}
		})
	}
}
