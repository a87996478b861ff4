package plan

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/share"
)

// drawn is any placement that a scheduler may make.
func drawn(t *rapid.T) *api.Allocation {
	id := rapid.SampledFrom([]string{uuid.NewString(), "odd", "00000000-0000-0000-0000-00000000000G", "ABCDEF00-0000-0000-0000-000000000000"})
	a := &api.Allocation{
		ID: id.Draw(t, "id"), Namespace: "default", JobID: "j", TaskGroup: rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group"),
		EvalID: id.Draw(t, "eval"), NodeID: id.Draw(t, "node"), NodeName: rapid.StringN(0, 3, 9).Draw(t, "name"),
		DesiredStatus: "run", ClientStatus: "pending", DeploymentID: rapid.SampledFrom([]string{"", "d"}).Draw(t, "deployment"),
	}
	a.Name = rapid.SampledFrom([]string{nameOf(a, 7), nameOf(a, 0), "other", "j.g[007]", ""}).Draw(t, "alloc name")
	if rapid.Bool().Draw(t, "successor") {
		a.PreviousAllocation = id.Draw(t, "previous")
		a.RescheduleTracker = &api.RescheduleTracker{Events: []*api.RescheduleEvent{{PrevAllocID: "p", RescheduleTime: 5}}}
	}
	if rapid.Bool().Draw(t, "resources") {
		cpu := rapid.Int64Range(0, 2).Draw(t, "cpu")
		a.AllocatedResources = &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{
			"t": {Cpu: api.AllocatedCpuResources{CpuShares: cpu}}, "s": {Memory: api.AllocatedMemoryResources{MemoryMB: 5}},
		}}
		if rapid.Bool().Draw(t, "device") {
			a.AllocatedResources.Tasks["t"].Devices = []*api.AllocatedDeviceResource{{Name: "gpu", DeviceIDs: []string{fmt.Sprint(cpu)}}}
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "ports") {
			a.AllocatedResources.Shared.Ports = append(a.AllocatedResources.Shared.Ports, api.PortMapping{Label: "p", Value: 20000 + i, To: -1, HostIP: "127.0.0.1"})
		}
	}
	if rapid.Bool().Draw(t, "metrics") {
		a.Metrics = &api.AllocationMetric{
			NodesEvaluated: rapid.IntRange(0, 2).Draw(t, "evaluated"), NodesAvailable: map[string]int{"dc1": 5, "dc2": 6},
			AllocationTime: time.Duration(rapid.IntRange(0, 3).Draw(t, "time")),
		}
		for range rapid.IntRange(0, 2).Draw(t, "scores") {
			a.Metrics.ScoreMetaData = append(a.Metrics.ScoreMetaData, &api.NodeScoreMeta{
				NodeID: a.NodeID, NormScore: 0.5, Scores: map[string]float64{"binpack": rapid.Float64().Draw(t, "score"), "final": 1},
			})
		}
	}
	return a
}

func TestPackedPlacementsComeOutAsTheyWentIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var alike share.Pool
		for range rapid.IntRange(1, 3).Draw(t, "plans") {
			in := rapid.SliceOfN(rapid.Custom(drawn), 1, 30).Draw(t, "placements")
			b, err := pack(in)
			if err != nil {
				t.Fatal(err)
			}
			out, err := unpack(b, &alike)
			if err != nil || len(out) != len(in) {
				t.Fatalf("%d of %d came out: %v", len(out), len(in), err)
			}
			for i := range in {
				if !reflect.DeepEqual(in[i], out[i]) {
					t.Fatalf("%+v became %+v", in[i], out[i])
				}
			}
		}
	})
}

func TestPlansShareWhatIsEqual(t *testing.T) {
	var alike share.Pool
	var rows []*api.Allocation
	for range 2 {
		b, err := pack(typical(2))
		if err != nil {
			t.Fatal(err)
		}
		out, err := unpack(b, &alike)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, out...)
	}
	place := func(v any) uintptr { return reflect.ValueOf(v).Pointer() }
	for _, a := range rows[1:] {
		if place(a.AllocatedResources.Tasks) != place(rows[0].AllocatedResources.Tasks) || place(a.Metrics.NodesAvailable) != place(rows[0].Metrics.NodesAvailable) {
			t.Error("resources or counts are not shared")
		}
	}
}

func TestDamagedPlacementsAreRefused(t *testing.T) {
	in := typical(20)
	good, err := pack(in)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := unpack(nil, &share.Pool{}); out != nil || err != nil {
		t.Errorf("nothing became %v, %v", out, err)
	}
	for n := range good[1:] {
		if _, err := unpack(good[:n+1], &share.Pool{}); err == nil {
			t.Fatalf("%d bytes of %d were taken", n+1, len(good))
		}
	}
	if _, err := unpack(append(slices.Clone(good), 0), &share.Pool{}); err == nil {
		t.Error("a byte too much was taken")
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 5_000 { // whatever comes out, it must not panic or take much memory
		bad := slices.Clone(good)
		for range 1 + rnd.IntN(4) {
			bad[rnd.IntN(len(bad))] = byte(rnd.Uint32())
		}
		if _, err := unpack(bad, &share.Pool{}); err == nil && len(bad) == 0 {
			t.Fatalf("seed %d", seed)
		}
	}
}

// typical are placements of a service job as the scheduler makes them: a port each, scores of the chosen node.
func typical(n int) []*api.Allocation {
	res := &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{
		"web": {Cpu: api.AllocatedCpuResources{CpuShares: 100}, Memory: api.AllocatedMemoryResources{MemoryMB: 64}},
	}, Shared: api.AllocatedSharedResources{DiskMB: 300}}
	base := api.AllocationMetric{
		NodesEvaluated: 5000, NodesInPool: 5000, NodePool: "default", NodesAvailable: map[string]int{"dc1": 2500, "dc2": 2500},
		ConstraintFiltered: map[string]int{"${attr.kernel.name} = linux": 3}, NodesFiltered: 3,
	}
	eval, rnd := uuid.NewString(), rand.New(rand.NewPCG(1, 2))
	list := make([]*api.Allocation, n)
	for i := range list {
		with := *res
		with.Shared.Ports = []api.PortMapping{{Label: "http", Value: 20000 + i%10000, HostIP: fmt.Sprintf("10.0.%d.%d", i/250, i%250)}}
		m := base
		node := uuid.NewString()
		m.ScoreMetaData = []*api.NodeScoreMeta{{NodeID: node, NormScore: rnd.Float64(), Scores: map[string]float64{"binpack": float64(i%4) / 4, "job-anti-affinity": 0}}}
		list[i] = &api.Allocation{
			ID: uuid.NewString(), Name: fmt.Sprintf("web.web[%d]", i), Namespace: "default", JobID: "web", TaskGroup: "web", EvalID: eval, NodeID: node,
			NodeName: fmt.Sprintf("client-%05d.dc1.example", i), DesiredStatus: "run", ClientStatus: "pending", AllocatedResources: &with, Metrics: &m,
		}
	}
	return list
}

// TestLogBytesPerPlacement is a gate: a placed allocation takes at most 250 bytes of the log, the job and the
// evaluation apart.
func TestLogBytesPerPlacement(t *testing.T) {
	const n = 1000
	cmd := &Apply{Plans: []*Entry{{Namespace: "default", JobID: "web", EvalID: uuid.NewString(), Places: typical(n)}}}
	wide, err := cmd.MarshalMsg(nil)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Plans[0].compact()
	b, err := cmd.MarshalMsg(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes per placement packed, %d as they are", len(b)/n, len(wide)/n)
	if len(b) > 250*n {
		t.Errorf("%d bytes per placement", len(b)/n)
	}
}

func BenchmarkPack(b *testing.B) {
	list := typical(1000)
	packed, err := pack(list)
	if err != nil {
		b.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"pack":   func() error { _, err := pack(list); return err },
		"unpack": func() error { _, err := unpack(packed, &share.Pool{}); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/placement")
			b.ReportMetric(float64(len(packed))/1000, "B/placement")
		})
	}
}
