package feasible_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

func gpu() *api.NodeDeviceResource {
	return &api.NodeDeviceResource{
		Vendor: "nvidia", Type: "gpu", Name: "1080ti", Instances: []*api.NodeDevice{{ID: "a", Healthy: true}, {ID: "b"}},
		Attributes: map[string]*api.Attribute{
			"memory": {IntVal: new(int64(11)), Unit: "GiB"}, "clock": {FloatVal: new(1.5), Unit: "GHz"}, "cores": {IntVal: new(int64(3584))}, "ecc": {BoolVal: new(true)},
			"driver": {StringVal: new("470.1.2")}, "fans": {IntVal: new(int64(0))}, "locked": {BoolVal: new(false)}, "serial": {StringVal: new("")}, "nothing": {}, "rate": {IntVal: new(int64(2)), Unit: "GB/s"}, "power": {IntVal: new(int64(250)), Unit: "W"},
			"odd": {IntVal: new(int64(3)), Unit: "bananas"},
		},
	}
}

func TestDeviceNames(t *testing.T) {
	for name, want := range map[string]bool{
		"gpu": true, "nvidia/gpu": true, "nvidia/gpu/1080ti": true, "fpga": false, "amd/gpu": false, "nvidia/gpu/other": false,
		"nvidia": false, "gpu/nvidia": false, "": false, "nvidia/gpu/1080ti/x": false,
	} {
		if got := feasible.NewDevice(&api.RequestedDevice{Name: name}).Fits(gpu()); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestDeviceConstraints(t *testing.T) {
	for _, c := range []struct {
		left, operand, right string
		want                 bool
	}{
		{"${device.attr.memory}", ">=", "11264 MiB", true},
		{"${device.attr.memory}", "=", "11 GiB", true},
		{"${device.attr.memory}", "=", "11GB", false},
		{"${device.attr.memory}", "<", "12000000000", false}, // a number without a unit is no amount of memory
		{"${device.attr.memory}", "!=", "11 GHz", false},
		{"${device.attr.memory}", "<", "12 GB", true},
		{"${device.attr.clock}", ">", "1400 MHz", true},
		{"${device.attr.power}", "<=", "0.25 kW", true},
		{"${device.attr.rate}", "=", "2000 MB/s", true},
		{"${device.attr.rate}", "=", "2 GB", false},
		{"${device.attr.odd}", "=", "3", false},
		{"${device.attr.cores}", ">=", "3584", true},
		{"${device.attr.cores}", ">", "3584.5", false},
		{"${device.attr.cores}", "=", "many", false},
		{"${device.attr.ecc}", "=", "true", true},
		{"${device.attr.ecc}", "!=", "false", true},
		{"${device.attr.ecc}", ">", "false", false},
		{"${device.attr.ecc}", "regexp", "t", false},
		{"${device.attr.fans}", "=", "0", true},
		{"${device.attr.fans}", "<", "1", true},
		{"${device.attr.fans}", "=", "false", false},
		{"${device.attr.locked}", "=", "false", true},
		{"${device.attr.locked}", "=", "0", false},
		{"${device.attr.serial}", "is_set", "", true},
		{"${device.attr.nothing}", "is_set", "", false},
		{"${device.attr.nothing}", "=", "0", false},
		{"${device.attr.driver}", "version", ">= 470, < 471", true},
		{"${device.attr.driver}", "semver", "> 470.1.1", true},
		{"${device.attr.driver}", "regexp", "^470", true},
		{"${device.attr.driver}", "is_set", "", true},
		{"${device.attr.none}", "is_set", "", false},
		{"${device.attr.none}", "is_not_set", "", true},
		{"${device.attr.none}", "=", "x", false},
		{"${device.attr.none}", "!=", "x", true},
		{"${device.vendor}", "=", "nvidia", true},
		{"${device.type}", "is", "gpu", true},
		{"${device.model}", "not", "1080ti", false},
		{"${device.ids}", "set_contains", "b,a", true},
		{"${device.ids}", "set_contains_any", "z,a", true},
		{"${device.ids}", "set_contains_all", "z,a", false},
		{"${node.class}", "=", "x", false},
		{"${device.vendor}", "no such operand", "nvidia", false},
		{"1 GiB", "<", "${device.attr.memory}", true},
	} {
		d := feasible.NewDevice(&api.RequestedDevice{Name: "gpu", Constraints: []*api.Constraint{{LTarget: c.left, Operand: c.operand, RTarget: c.right}}})
		if got := d.Fits(gpu()); got != c.want {
			t.Errorf("%s %s %s: %v", c.left, c.operand, c.right, got)
		}
	}
}

func FuzzDeviceConstraint(f *testing.F) {
	f.Add("gpu", "${device.attr.memory}", ">", "1 GiB", "KiB", 1.5)
	f.Fuzz(func(t *testing.T, name, left, operand, right, unit string, value float64) {
		g := gpu()
		g.Attributes["memory"] = &api.Attribute{FloatVal: &value, Unit: unit}
		d := feasible.NewDevice(&api.RequestedDevice{Name: name, Constraints: []*api.Constraint{{LTarget: left, Operand: operand, RTarget: right}}})
		d.Fits(g)
	})
}

func TestNodesWithoutTheDeviceAreRefused(t *testing.T) {
	g := &api.TaskGroup{Tasks: []*api.Task{{Resources: &api.Resources{Devices: []*api.RequestedDevice{{Name: "gpu", Count: 1}}}}}}
	n := &api.Node{NodeResources: &api.NodeResources{Devices: []*api.NodeDeviceResource{gpu()}}}
	if reason, _ := feasible.NewStatic(&api.Job{}, g).Refusal(n); reason != "" {
		t.Errorf("one of two is healthy and one is asked for: %s", reason)
	}
	g.Tasks[0].Resources.Devices[0].Count = 2
	if reason, _ := feasible.NewStatic(&api.Job{}, g).Refusal(n); reason != "missing devices" {
		t.Errorf("refusal %q", reason)
	}
}

func TestNodesWithoutTheHostNetworkAreRefused(t *testing.T) {
	n := &api.Node{
		Meta:          map[string]string{"net": "public"},
		NodeResources: &api.NodeResources{NodeNetworks: []*api.NodeNetwork{{Addresses: []*api.NodeNetworkAddress{{Alias: "public", Address: "192.0.2.1"}}}}},
	}
	for network, want := range map[string]string{
		"": "", "default": "", "public": "", "${meta.net}": "", "private": `missing host network "private" for port "p"`, "${meta.none}": `missing host network "" for port "p"`,
	} {
		g := &api.TaskGroup{Networks: []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "p", HostNetwork: network}}}}}
		if got, _ := feasible.NewStatic(&api.Job{}, g).Refusal(n); got != want {
			t.Errorf("%q: %q", network, got)
		}
	}
}
