package command_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

func deviceStats() []*api.DeviceGroupStats {
	return []*api.DeviceGroupStats{{Vendor: "acme", Type: "gpu", Name: "x1", InstanceStats: map[string]*api.DeviceStats{"d1": {
		Summary: &api.StatValue{IntNumeratorVal: new(int64(512)), IntDenominatorVal: new(int64(8192)), Unit: "MiB", Desc: "used memory"}, Timestamp: time.Unix(1, 0),
		Stats: &api.StatObject{
			Attributes: map[string]*api.StatValue{"load": {FloatNumeratorVal: new(0.5)}, "throttled": {BoolVal: new(false)}, "state": {StringVal: new("P0")}},
			Nested:     map[string]*api.StatObject{"bus": {Attributes: map[string]*api.StatValue{"errors": {IntNumeratorVal: new(int64(0))}}}},
		},
	}, "d2": nil}}, nil}
}

func TestNodeStatusShowsDevices(t *testing.T) {
	const id = "a1111111-0000-0000-0000-000000000000"
	node := &api.Node{ID: id, NodeResources: &api.NodeResources{Devices: []*api.NodeDeviceResource{{
		Vendor: "acme", Type: "gpu", Name: "x1",
		Instances:  []*api.NodeDevice{{ID: "d1", Healthy: true, Locality: &api.NodeDeviceLocality{PciBusID: "0000:01:00.0"}}, {ID: "d2", HealthDescription: "fell off the bus"}},
		Attributes: map[string]*api.Attribute{"memory": {IntVal: new(int64(8)), Unit: "GiB"}, "ecc": {BoolVal: new(false)}},
	}}}}
	uses := func(id, status string) *api.Allocation {
		return &api.Allocation{ID: id, ClientStatus: status, AllocatedResources: &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{
			"t": {Devices: []*api.AllocatedDeviceResource{{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: []string{"d1"}}}},
		}}}
	}
	answers := map[string]any{
		"GET /v1/nodes": []*api.NodeStub{{ID: id}}, "GET /v1/node/" + id: node,
		"GET /v1/node/" + id + "/allocations": []*api.Allocation{uses("old11111", "failed"), uses("b1111111", "running")},
		"GET /v1/client/stats":                &api.HostStats{DeviceStats: deviceStats()},
	}
	run(t, newAgent(t, answers), "", "node", "status", "a1").want(t, 0, "Devices", "acme/gpu/x1  1/2      1", "Device Resource Utilization", "acme/gpu/x1[d1] = 512 / 8192 MiB (used memory)")
	run(t, newAgent(t, answers), "", "node", "status", "-verbose", "a1").want(t, 0, "0000:01:00.0", "b1111111", "fell off the bus", "ecc    = false", "memory = 8 GiB")
	run(t, newAgent(t, answers), "", "node", "status", "-stats", "a1").want(t, 0, "Device Stats of acme/gpu/x1[d1]", "bus.errors  = 0", "load        = 0.5", "throttled   = false", "state       = P0")
	if o := run(t, newAgent(t, answers), "", "node", "status", "-short", "a1"); strings.Contains(o.out, "Device") {
		t.Errorf("-short shows devices: %s", o.out)
	}
}

func TestAllocStatusShowsDevices(t *testing.T) {
	answers := map[string]any{
		"GET /v1/allocations": []*api.AllocStub{{ID: "a1111111", Namespace: "default"}},
		"GET /v1/allocation/a1111111": &api.Allocation{
			ID: "a1111111", Namespace: "default", ClientStatus: "running", TaskStates: map[string]*api.TaskState{"t": {State: "running"}},
			AllocatedResources: &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{
				"t": {Devices: []*api.AllocatedDeviceResource{{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: []string{"d1"}}}},
			}},
		},
		"GET /v1/client/allocation/a1111111/stats": &api.AllocResourceUsage{Tasks: map[string]*api.TaskResourceUsage{"t": {ResourceUsage: &api.ResourceUsage{DeviceStats: deviceStats()}}}},
	}
	o := run(t, newAgent(t, answers), "", "alloc", "status", "a1")
	o.want(t, 0, "Device: acme/gpu/x1 [d1]", "Device Stats:\nacme/gpu/x1[d1] = 512 / 8192 MiB (used memory)")
	if strings.Contains(o.out, "bus.errors") {
		t.Errorf("all statistics are shown without -stats: %s", o.out)
	}
	run(t, newAgent(t, answers), "", "alloc", "status", "-stats", "a1").want(t, 0, "Device Stats of acme/gpu/x1[d1]:", "bus.errors  = 0")
}
