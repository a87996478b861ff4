package plan

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// cpu is the processor time of this process, which other programs do not move as they move the clock.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPlan takes plans of 1,000 placements on 5,000 nodes from verification to the state and prints
// processor time per placement, for each step and for all.
func BenchmarkPlan(b *testing.B) {
	const n, nodes = 1000, 5000
	s, err := state.New()
	if err != nil {
		b.Fatal(err)
	}
	ids, index := make([]string, nodes), uint64(10)
	write := func(fn func(tx *state.Txn)) {
		index++
		tx := s.Write(index, time.Unix(0, int64(index)))
		fn(tx)
		tx.Commit()
	}
	job := &api.Job{ID: "web", Namespace: "default", Type: "service", TaskGroups: []*api.TaskGroup{{Name: "web", Count: n, Tasks: []*api.Task{{Name: "web"}}}}}
	write(func(tx *state.Txn) {
		for i := range ids {
			ids[i] = uuid.NewString()
			tx.PutNode(&api.Node{
				ID: ids[i], Name: fmt.Sprint("client-", i), Status: api.NodeStatusReady, SchedulingEligibility: api.NodeSchedulingEligible,
				NodeResources: &api.NodeResources{
					Cpu: api.NodeCpuResources{CpuShares: 1 << 40}, Memory: api.NodeMemoryResources{MemoryMB: 1 << 40}, Disk: api.NodeDiskResources{DiskMB: 1 << 40},
				},
			})
		}
		tx.PutJob(job)
	})
	job = s.Read().Job("default", "web")
	spent := map[string]time.Duration{}
	steps := []string{"verify", "encode", "decode", "apply"}
	size, round := 0, 0
	f := fleet.Build(index, s.Read().Nodes(), s.Read().Allocs(api.AllNamespaces))
	placed := typical(n) // nobody keeps the rows of a plan: its log form is what the state gets
	for b.Loop() {
		b.StopTimer()
		tx, edit := s.Read(), f.Edit()
		for _, a := range placed {
			if round > 0 {
				edit.NewAlloc(tx.Alloc(a.ID))
			}
			a.ID = uuid.NewString()
		}
		f = edit.Done(tx.Index())
		p := &api.Plan{EvalID: uuid.NewString(), Job: job, NodeAllocation: map[string][]*api.Allocation{}}
		for i, a := range placed {
			a.EvalID, a.NodeID = p.EvalID, ids[(round*n+i)%nodes]
			a.AllocatedResources.Shared.Ports = nil
			a.Metrics.ScoreMetaData[0].NodeID = a.NodeID
			p.NodeAllocation[a.NodeID] = append(p.NodeAllocation[a.NodeID], a)
		}
		round++
		b.StartTimer()
		began := cpu()
		lap := func(step string) { spent[step] += cpu() - began; began = cpu() }
		checked := newVerifier(f, tx).check(p)
		if len(checked.refused) > 0 {
			b.Fatal(checked.refused)
		}
		lap("verify")
		e := entryOf(checked.plan, nil)
		e.compact()
		body, err := (&Apply{Plans: []*Entry{e}}).MarshalMsg(nil)
		if err != nil {
			b.Fatal(err)
		}
		lap("encode")
		var cmd Apply
		if _, err := cmd.UnmarshalMsg(body); err != nil {
			b.Fatal(err)
		}
		lap("decode")
		write(func(tx *state.Txn) {
			if _, err := cmd.Apply(tx); err != nil {
				b.Fatal(err)
			}
		})
		lap("apply")
		size = len(body)
	}
	var all time.Duration
	for _, step := range steps {
		all += spent[step]
		b.ReportMetric(float64(spent[step].Microseconds())/float64(b.N*n), step+"-us")
	}
	b.ReportMetric(float64(all.Microseconds())/float64(b.N*n), "all-us/placement")
	b.ReportMetric(float64(size)/n, "B/placement")
}
