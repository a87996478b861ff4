package share_test

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/share"
)

// fresh is an allocation that shares nothing with another one.
func fresh(port int, cpu int64) *api.Allocation {
	text := func(s string) string { return string([]byte(s)) }
	a := &api.Allocation{
		ID: "a", Namespace: text("default"), NodeID: text("n1"),
		AllocatedResources: &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{"t": {Cpu: api.AllocatedCpuResources{CpuShares: cpu}}}},
		Metrics: &api.AllocationMetric{NodesAvailable: map[string]int{"dc1": 3}, ScoreMetaData: []*api.NodeScoreMeta{
			{NodeID: text("n1"), Scores: map[string]float64{"binpack": 0.5}, NormScore: float64(port)},
		}},
		TaskStates: map[string]*api.TaskState{"t": {State: text("running")}},
	}
	if port > 0 {
		a.AllocatedResources.Shared.Ports = []api.PortMapping{{Label: text("http"), Value: port}}
	}
	return a
}

func TestAllocationsShareWhatIsEqualAndSayTheSame(t *testing.T) {
	var p share.Pool
	a, b, c, d := fresh(0, 5), fresh(0, 5), fresh(80, 5), fresh(81, 6)
	for _, x := range []*api.Allocation{a, b, c, d} {
		p.Alloc(x)
	}
	for i, pair := range [][2]*api.Allocation{{a, fresh(0, 5)}, {b, fresh(0, 5)}, {c, fresh(80, 5)}, {d, fresh(81, 6)}} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%d became %+v", i, pair[0])
		}
	}
	if reflect.ValueOf(a.AllocatedResources.Tasks).Pointer() != reflect.ValueOf(b.AllocatedResources.Tasks).Pointer() ||
		reflect.ValueOf(a.AllocatedResources.Tasks).Pointer() != reflect.ValueOf(c.AllocatedResources.Tasks).Pointer() {
		t.Error("resources are not shared")
	}
	if reflect.ValueOf(a.AllocatedResources.Tasks).Pointer() == reflect.ValueOf(d.AllocatedResources.Tasks).Pointer() {
		t.Error("other resources are shared")
	}
	if reflect.ValueOf(a.Metrics.NodesAvailable).Pointer() != reflect.ValueOf(d.Metrics.NodesAvailable).Pointer() ||
		reflect.ValueOf(a.Metrics.ScoreMetaData[0].Scores).Pointer() != reflect.ValueOf(d.Metrics.ScoreMetaData[0].Scores).Pointer() {
		t.Error("counts and scores are not shared")
	}
	if unsafe.StringData(a.NodeID) != unsafe.StringData(d.Metrics.ScoreMetaData[0].NodeID) {
		t.Error("texts are not shared")
	}
}
