package jobspec

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

func TestGroupsTakeOverWhatTheJobSaysForAll(t *testing.T) {
	j, err := DecodeJSON([]byte(`{"ID": "a", "reschedule": {"Attempts": 3, "Interval": 60000000000, "Unlimited": false},
		"TaskGroups": [{"Name": "g", "Migrate": {"MaxParallel": 7}}, {"Name": "h", "ReschedulePolicy": {"Attempts": 9}}],
		"Migrate": {"MaxParallel": 4}}`))
	if err != nil {
		t.Fatal(err)
	}
	g, h := j.TaskGroups[0], j.TaskGroups[1]
	if p := g.ReschedulePolicy; p == nil || p.Attempts != 3 || p.Interval != time.Minute || p.Unlimited {
		t.Errorf("reschedule %+v", p)
	}
	if g.Migrate.MaxParallel != 7 || h.Migrate == nil || h.Migrate.MaxParallel != 4 || h.ReschedulePolicy.Attempts != 9 {
		t.Errorf("migrate %+v and %+v, reschedule %+v", g.Migrate, h.Migrate, h.ReschedulePolicy)
	}
	if g.ReschedulePolicy.Delay != rescheduleDefault(api.JobTypeService).Delay {
		t.Errorf("delay %s", g.ReschedulePolicy.Delay)
	}
	if _, err := DecodeJSON([]byte(`{"ID": "a", "Migrate": {"MaxParallel": "four"}}`)); err == nil {
		t.Error("a text was taken for a number")
	}
}

// Reserved cores take the place of the CPU that is a default; what a user asked for beside them stays, to be refused by
// name.
func TestCoresReplaceTheDefaultOfCPUOnly(t *testing.T) {
	for cpu, want := range map[int]int{100: 0, 0: 0, 500: 500} {
		j := &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{
			Name: "t", Driver: "mock", Resources: &api.Resources{Cores: 2, CPU: cpu},
		}}}}}
		Canonicalize(j)
		if got := j.TaskGroups[0].Tasks[0].Resources.CPU; got != want {
			t.Errorf("cpu = %d beside cores = 2 becomes %d, want %d", cpu, got, want)
		}
	}
}
