package share_test

import (
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/apitest"
	"github.com/open-nomad/open-nomad/nomad/share"
)

// A field that a comparison forgets would take the value of a neighbour, in the log and in restored states.
func TestEveryFieldOfResourcesMakesThemOthers(t *testing.T) {
	for _, f := range apitest.Fields(&api.AllocatedResources{}, "Shared.Ports") {
		one := &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{"key": {}}}
		other := &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{"key": {}}}
		f.Set(other)
		if share.SameResources(one, other) || share.SameResources(other, one) {
			t.Errorf("%s is not compared", f.Path)
		}
	}
}

func TestEveryFieldOfCountsMakesThemOthers(t *testing.T) {
	for _, f := range apitest.Fields(&api.AllocationMetric{}, "AllocationTime", "ScoreMetaData") {
		other := &api.AllocationMetric{}
		f.Set(other)
		if share.SameCounts(&api.AllocationMetric{}, other) || share.SameCounts(other, &api.AllocationMetric{}) {
			t.Errorf("%s is not compared", f.Path)
		}
	}
}

func TestNoFieldOfAnAllocationIsTakenFromAnotherOne(t *testing.T) {
	for _, f := range apitest.Fields(&api.Allocation{}, "Job") {
		var p share.Pool
		one, other := bare(), bare()
		f.Set(other)
		want := bare()
		f.Set(want)
		p.Alloc(one)
		if p.Alloc(other); !reflect.DeepEqual(other, want) {
			t.Errorf("%s is %v beside an allocation that has another one", f.Path, f.Get(other))
		}
	}
}

// bare has all that may be shared, and no values in it.
func bare() *api.Allocation {
	return &api.Allocation{
		AllocatedResources: &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{"key": {}}},
		Metrics:            &api.AllocationMetric{ScoreMetaData: []*api.NodeScoreMeta{{}}},
		TaskStates:         map[string]*api.TaskState{"key": {Events: []*api.TaskEvent{{}}}},
	}
}
