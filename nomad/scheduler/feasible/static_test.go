package feasible_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

func TestRefusalOfANodeWhoseDriverIsUnhealthySaysWhy(t *testing.T) {
	t.Parallel()
	g := &api.TaskGroup{Name: "g", Tasks: []*api.Task{{Name: "t", Driver: "raw_exec"}}}
	s := feasible.NewStatic(&api.Job{ID: "j", TaskGroups: []*api.TaskGroup{g}}, g)
	for want, info := range map[string]*api.DriverInfo{
		"":                {Detected: true, Healthy: true, HealthDescription: "Healthy"},
		"missing drivers": {Detected: false, HealthDescription: "disabled"},
		"missing drivers: raw_exec is unhealthy: Client state cannot be written: no space left on device": {
			Detected: true, HealthDescription: "Client state cannot be written: no space left on device\nmore",
		},
	} {
		if got, classed := s.Refusal(&api.Node{Drivers: map[string]*api.DriverInfo{"raw_exec": info}}); got != want || classed {
			t.Errorf("%+v: %q of the class: %v, want %q", info, got, classed, want)
		}
	}
}

// A plugin that has the name of the network is not the network.
func TestCNINetworkIsPlacedOnNodesThatHaveIt(t *testing.T) {
	t.Parallel()
	g := &api.TaskGroup{Name: "g", Networks: []*api.NetworkResource{{Mode: "cni/web"}}}
	s := feasible.NewStatic(&api.Job{ID: "j", TaskGroups: []*api.TaskGroup{g}}, g)
	for attribute, want := range map[string]string{"plugins.cni.config.web": "", "plugins.cni.config.other": "missing network", "plugins.cni.version.web": "missing network"} {
		if got, _ := s.Refusal(&api.Node{Attributes: map[string]string{attribute: "1.0.0"}}); got != want {
			t.Errorf("%s: %q, want %q", attribute, got, want)
		}
	}
}

// A node that drains takes nothing, also while it counts as eligible: what was said of the one may come before the other.
func TestANodeTakesPartInPlacementUnlessSomethingSpeaksAgainstIt(t *testing.T) {
	for name, change := range map[string]func(*api.Node){
		"":             func(*api.Node) {},
		"down":         func(n *api.Node) { n.Status = api.NodeStatusDown },
		"not eligible": func(n *api.Node) { n.SchedulingEligibility = api.NodeSchedulingIneligible },
		"drains":       func(n *api.Node) { n.DrainStrategy = &api.DrainStrategy{} },
		"is drained":   func(n *api.Node) { n.Drain = true },
	} {
		n := &api.Node{Status: api.NodeStatusReady, SchedulingEligibility: api.NodeSchedulingEligible}
		change(n)
		if got := feasible.Available(n); got != (name == "") {
			t.Errorf("%q: available %v", name, got)
		}
	}
}
