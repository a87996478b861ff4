package jsonspec

import (
	"testing"
	"time"
)

func TestGroupsTakeOverWhatTheJobSaysForAll(t *testing.T) {
	j, err := Decode([]byte(`{"ID": "a", "reschedule": {"Attempts": 3, "Interval": 60000000000, "Unlimited": false},
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
	if g.ReschedulePolicy.Delay != 30*time.Second {
		t.Errorf("delay %s", g.ReschedulePolicy.Delay)
	}
	if _, err := Decode([]byte(`{"ID": "a", "Migrate": {"MaxParallel": "four"}}`)); err == nil {
		t.Error("a text was taken for a number")
	}
}
