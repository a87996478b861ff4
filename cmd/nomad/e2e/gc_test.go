package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

func TestFinishedBatchJobIsForgotten(t *testing.T) {
	a := kit.Start(t)
	batch := func(id, script string) {
		t.Helper()
		j := kit.ShellJob(id, script)
		kind := "batch"
		j.Type = &kind
		j.TaskGroups[0].ReschedulePolicy = reschedule(0, false)
		a.Register(j)
	}
	batch("done", "exit 0")
	batch("failed", "exit 1")
	batch("busy", forever)
	a.Running("busy", 1)
	ended := map[string]string{"done": "complete", "failed": "failed"}
	for id, status := range ended {
		a.Until(30*time.Second, id+" to end", func() error {
			if n := len(a.Allocs(id, status)); n != 1 {
				return fmt.Errorf("%d allocations are %s", n, status)
			}
			return nil
		})
	}
	// Forgotten is what is over: the evaluations that the ends caused must be done as well.
	var jobs string
	a.Until(20*time.Second, "the ended jobs to be forgotten", func() error {
		if out, code := a.Run("system", "gc"); code != 0 {
			return fmt.Errorf("exit %d: %s", code, out)
		}
		jobs, _ = a.Run("job", "status")
		for id := range ended {
			if strings.Contains(jobs, id) {
				return fmt.Errorf("%s is listed:\n%s", id, jobs)
			}
		}
		return nil
	})
	if !strings.Contains(jobs, "busy") {
		t.Errorf("the running job is not listed:\n%s", jobs)
	}
	evals, _, err := a.API.Evaluations().List(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range evals {
		if e.JobID != "busy" {
			t.Errorf("evaluation %s of %s is left", e.ID, e.JobID)
		}
	}
	if _, _, err := a.API.Jobs().Info("done", nil); err == nil {
		t.Error("the job is still known")
	}
	if n := len(a.Allocs("busy", "running")); n != 1 {
		t.Errorf("%d allocations of the running job", n)
	}
}
