package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// family holds its volume with a process that outlives shell and supervising process unless somebody ends it.
const family = `me=$NOMAD_ALLOC_ID.$$; echo start $me >> data/journal
setsid sh -c "trap '' INT TERM HUP; while :; do echo beat $me >> data/journal; sleep 0.02; done" & wait`

// TestAgentAndSupervisingProcessesKilledTogether: whenever that is, no task runs that nobody supervises, nobody writes
// beside another, and nothing stays mounted or claimed.
func TestAgentAndSupervisingProcessesKilledTogether(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	dice := seeded(t)
	const many = 6
	for i := range many {
		a.CreateVolume("hp", fmt.Sprint("v", i))
	}
	kills := 0
	killSome := func() {
		moment(dice, 600*time.Millisecond)
		chosen := some(dice, a.Supervisors())
		if agentFirst := dice.IntN(2) == 0; agentFirst {
			a.Kill()
			send(chosen, syscall.SIGKILL)
		} else {
			send(chosen, syscall.SIGKILL)
			a.Kill()
		}
		kills += len(chosen)
		a.Launch()
	}
	for round := range soaktest.Rounds(1, 5) {
		job := func(i int) string { return fmt.Sprintf("w%d-%d", round, i) }
		for i := range many {
			j := kit.WithVolume(kit.ShellJob(job(i), family), fmt.Sprint("v", i))
			attempts, delay := 100, 100*time.Millisecond
			j.TaskGroups[0].RestartPolicy.Attempts, j.TaskGroups[0].RestartPolicy.Delay = &attempts, &delay
			a.Register(j)
		}
		for range 3 {
			killSome()
		}
		a.PluginHealthy("hp")
		for i := range many {
			a.Running(job(i), 1)
		}
		for i := range many {
			a.Stop(job(i), i%2 == 0)
		}
		for range 2 {
			killSome()
		}
		a.PluginHealthy("hp")
		for i := range many {
			a.Free(fmt.Sprint("v", i))
		}
		unmounted(t, a)
		a.Until(20*time.Second, "nothing to run but the plugin", func() error {
			if n, all := len(a.Supervisors()), lasting(a); n != 1 || len(all) > 2 {
				return fmt.Errorf("%d supervising processes of %v", n, all)
			}
			return nil
		})
		journals, _ := filepath.Glob(a.Dir + "/hp/data/*/journal")
		for _, path := range journals {
			body, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			noOverlap(t, string(body))
		}
	}
	kit.Measured(t, fmt.Sprintf("%d supervising processes killed with the agent", kills))
}
