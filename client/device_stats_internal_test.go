package client

import (
	"fmt"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// twinMeter reports one number for each device.
type twinMeter struct{}

func (twinMeter) Stats() []*api.DeviceGroupStats {
	return twinMeter{}.StatsOf([]*api.AllocatedDeviceResource{{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: []string{"d1", "d2"}}})
}

func (twinMeter) StatsOf(list []*api.AllocatedDeviceResource) (out []*api.DeviceGroupStats) {
	for _, d := range list {
		g := &api.DeviceGroupStats{Vendor: d.Vendor, Type: d.Type, Name: d.Name, InstanceStats: map[string]*api.DeviceStats{}}
		for _, id := range d.DeviceIDs {
			memory := &api.StatValue{IntNumeratorVal: new(int64(5)), IntDenominatorVal: new(int64(8)), Unit: "MiB"}
			g.InstanceStats[id] = &api.DeviceStats{Summary: memory, Stats: &api.StatObject{
				Attributes: map[string]*api.StatValue{"memory": memory, "state": {StringVal: new("P0")}, "hot": {BoolVal: new(true)}, "nothing": nil},
				Nested:     map[string]*api.StatObject{"bus": {Attributes: map[string]*api.StatValue{"errors": {FloatNumeratorVal: new(0.0)}}}, "none": nil},
			}}
		}
		out = append(out, g)
	}
	return out
}

func TestUseOfAnAllocationTellsOfTheDevicesOfEachTask(t *testing.T) {
	gpu := []*api.AllocatedDeviceResource{{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: []string{"d2"}}}
	a := &api.Allocation{AllocatedResources: &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{"a": {Devices: gpu}, "b": {}, "ended": {Devices: gpu}}}}
	shared := &api.TaskResourceUsage{ResourceUsage: &api.ResourceUsage{CpuStats: &api.CpuStats{Percent: 3}}}
	used := &api.AllocResourceUsage{ResourceUsage: &api.ResourceUsage{}, Tasks: map[string]*api.TaskResourceUsage{"a": shared, "b": {}}}
	addDeviceUsage(twinMeter{}, a, used)
	of := used.Tasks["a"].ResourceUsage
	if len(of.DeviceStats) != 1 || of.DeviceStats[0].InstanceStats["d2"] == nil || len(of.DeviceStats[0].InstanceStats) != 1 || of.CpuStats.Percent != 3 {
		t.Errorf("task a: %+v", of)
	}
	if r := used.Tasks["b"].ResourceUsage; r != nil {
		t.Errorf("task b has no device and got %+v", r)
	}
	if len(used.ResourceUsage.DeviceStats) != 1 {
		t.Errorf("all together: %+v", used.ResourceUsage)
	}
	if shared.ResourceUsage.DeviceStats != nil {
		t.Error("what the driver handed out was changed")
	}
}

func TestDevicesAreMetrics(t *testing.T) {
	var got []string
	for _, v := range deviceValues(twinMeter{}.Stats(), nil) {
		text := v.name
		for _, l := range v.labels {
			if l.Name == "device_id" || l.Name == "stat" || l.Name == "unit" && l.Value != "" {
				text += " " + l.Value
			}
		}
		got = append(got, fmt.Sprint(text, " ", v.value))
	}
	want := func(id string) []string {
		return []string{
			"client.devices.summary " + id + " 5", "client.devices.value " + id + " hot 1", "client.devices.value " + id + " memory MiB 5",
			"client.devices.limit " + id + " memory MiB 8", "client.devices.value " + id + " bus.errors 0",
		}
	}
	if all := slices.Concat(want("d1"), want("d2")); !slices.Equal(got, all) {
		t.Errorf("got  %q\nwant %q", got, all)
	}
	many := &api.DeviceGroupStats{InstanceStats: map[string]*api.DeviceStats{}}
	for i := range deviceValuesMax + 1 {
		many.InstanceStats[fmt.Sprint(i)] = &api.DeviceStats{Summary: &api.StatValue{IntNumeratorVal: new(int64(i))}}
	}
	if n := len(deviceValues([]*api.DeviceGroupStats{many}, nil)); n != deviceValuesMax {
		t.Errorf("%d values are reported", n)
	}
}
