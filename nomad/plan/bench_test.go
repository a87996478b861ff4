package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/cputimetest"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// stored is the placement of the baseline: one task, and scores of four kinds for two nodes.
func stored(n int) []*api.Allocation {
	list := typical(n)
	for i, a := range list {
		for _, task := range a.AllocatedResources.Tasks {
			task.Cpu.CpuShares, task.Memory.MemoryMB = 50, 50
		}
		a.AllocatedResources.Shared = api.AllocatedSharedResources{DiskMB: 10}
		scores := map[string]float64{"binpack": float64(i%4) / 4, "job-anti-affinity": 0, "node-affinity": 0, "node-reschedule-penalty": 0}
		a.Metrics.ScoreMetaData = []*api.NodeScoreMeta{
			{NodeID: a.NodeID, NormScore: float64(i%4) / 4, Scores: scores}, {NodeID: a.NodeID, NormScore: float64(i%3) / 4, Scores: scores},
		}
	}
	return list
}

// BenchmarkPlan takes plans of 1,000 placements on 5,000 nodes from verification to the state, and its changes on to the
// fleet, and prints processor time per placement, garbage collection included, for each step and for all.
func BenchmarkPlan(b *testing.B) {
	const n, nodes = 1000, 5000
	s := state.New()
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
	steps := []string{"verify", "encode", "decode", "apply", "follow"}
	size, round := 0, 0
	fleets, feed := NewFleetCache(s), s.Feed(state.TableNodes, state.TableAllocs)
	defer feed.Close()
	follow := func() {
		news, err := feed.Next(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		fleets.advance(news)
	}
	follow()
	placed := stored(n) // nobody keeps the rows of a plan: its log form is what the state gets
	for b.Loop() {
		b.StopTimer()
		tx := s.Read()
		p := &api.Plan{EvalID: uuid.NewString(), Job: job, NodeAllocation: map[string][]*api.Allocation{}}
		for i, a := range placed {
			a.ID, a.EvalID, a.NodeID = uuid.NewString(), p.EvalID, ids[(round*n+i)%nodes]
			a.Metrics.ScoreMetaData[0].NodeID, a.Metrics.ScoreMetaData[1].NodeID = a.NodeID, ids[(round*n+i+1)%nodes]
			p.NodeAllocation[a.NodeID] = append(p.NodeAllocation[a.NodeID], a)
		}
		round++
		b.StartTimer()
		began := cputimetest.Process()
		lap := func(step string) { spent[step] += cputimetest.Process() - began; began = cputimetest.Process() }
		checked := newVerifier(fleets.fleet, tx).check(p)
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
		follow()
		lap("follow")
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
