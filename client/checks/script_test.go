package checks_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

func TestScripts(t *testing.T) {
	for name, c := range map[string]struct {
		code, output, onUpdate string
		status, shown          string
		healthy                bool
	}{
		"passes":           {"0", "all is well", "", api.CheckSuccess, "all is well", true},
		"without output":   {"0", "", "", api.CheckSuccess, "nomad: script ended with exit code 0", true},
		"warns":            {"1", "disk is full soon", "", api.CheckWarning, "disk is full soon", false},
		"warns, ignored":   {"1", "disk is full soon", "ignore_warnings", api.CheckWarning, "disk is full soon", true},
		"fails":            {"2", "", "ignore_warnings", api.CheckFailure, "nomad: script ended with exit code 2", false},
		"has much output":  {"0", strings.Repeat("x", 5000), "", api.CheckSuccess, strings.Repeat("x", 1024), true},
		"does not end":     {"hang", "waits", "", api.CheckFailure, "the script has not ended after 3s: waits", false},
		"cannot be run":    {"x", "", "", api.CheckFailure, `strconv.Atoi: parsing "x": invalid syntax`, false},
		"has other output": {"0", "a\xffb", "", api.CheckSuccess, "ab", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := with("127.0.0.1:0", api.ServiceCheck{
					Name: "c", Type: "script", TaskName: "t", Command: "/check", Args: []string{c.code, c.output}, OnUpdate: c.onUpdate,
				})
				a.Job.TaskGroups[0].Services[0].Checks[0].Timeout = 3 * time.Second
				g := &group{}
				g.become(api.TaskStateRunning, 0)
				s := prober().Set(a, g, func() {})
				ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
				defer cancel()
				s.Run(ctx)
				if got := one(s); got.Status != c.status || got.Output != c.shown {
					t.Errorf("status %q, output %q", got.Status, got.Output)
				}
				if all, _ := s.Passing(); all != c.healthy {
					t.Errorf("healthy: %v", all)
				}
			})
		})
	}
}

// A check that counts warnings restarts its task as one that fails does.
func TestWarningsRestart(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := with("127.0.0.1:0", api.ServiceCheck{
				Name: "c", Type: "script", TaskName: "t", Command: "/check", Args: []string{"1", ""},
				CheckRestart: &api.CheckRestart{Limit: 2, IgnoreWarnings: ignore},
			})
			g := &group{}
			g.become(api.TaskStateRunning, 0)
			ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
			defer cancel()
			prober().Set(a, g, func() {}).Run(ctx)
			if restarts := len(g.asked()); restarts == 0 != ignore {
				t.Errorf("ignore_warnings = %v: %d restarts", ignore, restarts)
			}
		})
	}
}
