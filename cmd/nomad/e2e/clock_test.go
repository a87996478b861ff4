package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// TestClockSetWhileManyEnd: an agent whose clock is set back and forth, by seconds and by years, also while it is down,
// neither loses tasks nor runs them twice, restarts what fails without a pause of years, leaves alone what runs, and ends
// what it is told to.
func TestClockSetWhileManyEnd(t *testing.T) {
	t.Parallel()
	a := kit.Prepare(t)
	clock := a.OwnClock()
	a.Launch()
	const year = 365 * 24 * time.Hour
	clock.Set(10 * year)
	a.Register(kit.ShellJob("stays", quiet))
	job, _, err := a.API.Jobs().Info("stays", nil)
	if err != nil {
		t.Fatal(err)
	}
	clock.Seen(t, time.Unix(0, *job.SubmitTime))
	stays := a.Running("stays", 1)
	fails := kit.ShellJob("fails", fmt.Sprintf("echo >> %s/failed; sleep 0.5; exit 1", a.Dir))
	attempts, interval, delay, mode := 1, 5*time.Second, 10*time.Millisecond, "delay"
	p := fails.TaskGroups[0].RestartPolicy
	p.Attempts, p.Interval, p.Delay, p.Mode = &attempts, &interval, &delay, &mode
	a.Register(fails)

	runs := func() int {
		body, _ := os.ReadFile(a.Dir + "/failed")
		return len(body)
	}

	dice, sets := seeded(t), 0
	var sum tally
	for round := range soaktest.Rounds(1, 5) {
		s := shortTasks(a, fmt.Sprintf("short-%d", round), 50, 5)
		for end := time.Now().Add(6 * time.Second); time.Now().Before(end); sets++ {
			by := []time.Duration{time.Second, time.Minute, time.Hour, year, 10 * year}[dice.IntN(5)]
			if dice.IntN(2) == 0 {
				by = -by
			}
			clock.Set(by)
			moment(dice, 300*time.Millisecond)
			if sets%4 == 3 {
				a.Kill()
				a.Launch()
			}
		}
		sum.add(s.once(t, a, 60*time.Second))
	}
	goesOn := func() {
		before := runs()
		a.Until(30*time.Second, "the job that fails to be restarted twice", func() error {
			if n := runs(); n < before+2 {
				return fmt.Errorf("it has run %d times, %d before the clock was set", n, before)
			}
			return nil
		})
	}
	clock.Set(10 * year)
	goesOn()
	a.Kill()
	clock.Set(-10 * year)
	a.Launch()
	goesOn()
	if now := a.Running("stays", 1); now.ID != stays.ID || now.TaskStates["main"].Restarts != 0 {
		t.Errorf("%s runs in place of %s, restarted %d times", now.ID, stays.ID, now.TaskStates["main"].Restarts)
	}
	a.Stop("stays", false)
	took := a.Until(30*time.Second, "the job to end", func() error {
		if n := len(a.Allocs("stays", "complete")); n != 1 {
			return fmt.Errorf("%d are complete", n)
		}
		return nil
	})
	kit.Measured(t, fmt.Sprintf("the agent's clock set %d times: %s; a job ended in %s", sets, sum, took.Round(10*time.Millisecond)))
}
