package e2e

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// TestCommandsRunInATaskBeforeAndAfterARestartOfTheAgent: the task is taken up again, and commands run in it as before.
func TestCommandsRunInATaskBeforeAndAfterARestartOfTheAgent(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Register(kit.ShellJob("shell", "sleep 1000"))
	id := a.Running("shell", 1).ID
	check := func() {
		t.Helper()
		if text, code := a.Run("alloc", "exec", "-i=false", id, "sh", "-c", "echo in $NOMAD_JOB_NAME; exit 3"); code != 3 || !strings.Contains(text, "in shell") {
			t.Fatalf("code %d: %s", code, text)
		}
	}
	check()
	a.Kill()
	a.Launch()
	a.Ready(1)
	a.Running("shell", 1)
	check()
}

// TestNoCommandRunsInATaskThatHasEnded: the reason is printed.
func TestNoCommandRunsInATaskThatHasEnded(t *testing.T) {
	a := kit.Start(t)
	j := kit.ShellJob("brief", "echo done")
	j.Type = ptr("batch")
	a.Register(j)
	ended(t, a, "brief", "complete", 1)
	id := a.Allocs("brief", "complete")[0].ID
	text, code := a.Run("alloc", "exec", "-i=false", id, "echo", "alive")
	if code != 1 || !strings.Contains(text, "Task not running") {
		t.Errorf("code %d: %s", code, text)
	}
}
