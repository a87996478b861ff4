package plan

import (
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/apitest"
	"github.com/open-nomad/open-nomad/nomad/share"
)

// The log form lists what placements have in common by hand: each field of one comes out as it went in, beside
// placements that have another value in it.
func TestEveryFieldOfAPlacementComesOutOfTheLogAsItWentIn(t *testing.T) {
	placement := func(id string) *api.Allocation {
		return &api.Allocation{
			ID: id, AllocatedResources: &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{"key": {}}},
			Metrics: &api.AllocationMetric{},
		}
	}
	for _, f := range apitest.Fields(&api.Allocation{}, "Job") { // the plan has the job
		list := func() []*api.Allocation {
			other := placement("b")
			f.Set(other)
			return []*api.Allocation{placement("a"), other, placement("c")}
		}
		packed, err := pack(list())
		if err != nil {
			t.Fatalf("%s: %v", f.Path, err)
		}
		got, err := unpack(packed, &share.Pool{})
		if err != nil {
			t.Fatalf("%s: %v", f.Path, err)
		}
		for i, want := range list() {
			if !reflect.DeepEqual(f.Get(got[i]), f.Get(want)) {
				t.Errorf("%s of placement %d is %v, and was %v", f.Path, i, f.Get(got[i]), f.Get(want))
			}
		}
	}
}
