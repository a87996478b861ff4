package httpapi_test

import (
	"encoding/json"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

func TestAllocationTellsItsResourcesInBothForms(t *testing.T) {
	a := &api.Allocation{ID: "a1", AllocatedResources: &api.AllocatedResources{
		Tasks: map[string]*api.AllocatedTaskResources{
			"web":  {Cpu: api.AllocatedCpuResources{CpuShares: 50}, Memory: api.AllocatedMemoryResources{MemoryMB: 32}},
			"side": {Cpu: api.AllocatedCpuResources{CpuShares: 10}, Memory: api.AllocatedMemoryResources{MemoryMB: 16, MemoryMaxMB: 64}},
		},
		Shared: api.AllocatedSharedResources{DiskMB: 300},
	}}
	c := newCluster()
	on(c, wire.AllocGet, func(*api.AllocRequest) (*api.AllocGetResponse, error) { return &api.AllocGetResponse{Alloc: a}, nil })
	on(c, wire.NodeAllocations, func(*api.NodeRequest) (*api.AllocFullListResponse, error) {
		return &api.AllocFullListResponse{Allocs: []*api.Allocation{a, {ID: "bare"}}}, nil
	})
	type view struct {
		ID                         string
		Resources, SharedResources api.Resources
		TaskResources              map[string]api.Resources
	}
	var one view
	if err := json.Unmarshal(send(handler(c), "GET", "/v1/allocation/a1", "").Body.Bytes(), &one); err != nil {
		t.Fatal(err)
	}
	var all []struct{ Resources *api.Resources }
	if err := json.Unmarshal(send(handler(c), "GET", "/v1/node/n1/allocations", "").Body.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	if r := one.Resources; one.ID != "a1" || r.CPU != 60 || r.MemoryMB != 48 || r.MemoryMaxMB != 96 || r.DiskMB != 300 {
		t.Errorf("whole: %+v", one)
	}
	if one.SharedResources.DiskMB != 300 || one.TaskResources["web"].CPU != 50 || one.TaskResources["side"].MemoryMaxMB != 64 {
		t.Errorf("parts: %+v", one)
	}
	if len(all) != 2 || all[0].Resources == nil || all[0].Resources.CPU != 60 || all[1].Resources == nil {
		t.Errorf("on the node: %+v", all)
	}
}
