package defaults_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/defaults"
)

// Reserved cores take the place of the CPU that is a default; what a user asked for beside them stays, to be refused by
// name.
func TestCoresReplaceTheDefaultOfCPUOnly(t *testing.T) {
	for cpu, want := range map[int]int{100: 0, 0: 0, 500: 500} {
		j := &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{
			Name: "t", Driver: "mock", Resources: &api.Resources{Cores: 2, CPU: cpu},
		}}}}}
		defaults.Canonicalize(j)
		if got := j.TaskGroups[0].Tasks[0].Resources.CPU; got != want {
			t.Errorf("cpu = %d beside cores = 2 becomes %d, want %d", cpu, got, want)
		}
	}
}
