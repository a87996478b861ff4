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
