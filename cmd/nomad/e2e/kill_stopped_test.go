package e2e

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// TestSupervisingProcessesStoppedWhileManyEnd: processes that are stopped and continued at any moment, also while the
// agent is killed, neither lose tasks nor run them twice, and a job can be stopped while they are.
func TestSupervisingProcessesStoppedWhileManyEnd(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	dice := seeded(t)
	const deaf = 10
	timeout := time.Second
	j := kit.ShellJob("deaf", `trap "" INT TERM HUP; (trap "" INT TERM; setsid sleep 1000 &); while :; do sleep 1000; done`)
	count := deaf
	j.TaskGroups[0].Count, j.TaskGroups[0].Tasks[0].KillTimeout = &count, &timeout
	a.Register(j)
	a.Running("deaf", deaf)
	var sum tally
	stops := 0
	for round := range soaktest.Rounds(1, 5) {
		s := shortTasks(a, fmt.Sprintf("short-%d", round), 50, 5)
		for end := time.Now().Add(6 * time.Second); time.Now().Before(end); stops++ {
			stopped := some(dice, a.Supervisors())
			send(stopped, syscall.SIGSTOP)
			moment(dice, 400*time.Millisecond)
			if stops%4 == 3 {
				a.Kill()
				a.Launch()
			}
			moment(dice, 400*time.Millisecond)
			send(stopped, syscall.SIGCONT)
		}
		send(a.Supervisors(), syscall.SIGCONT)
		sum.add(s.once(t, a, 60*time.Second))
	}

	send(some(dice, a.Supervisors()), syscall.SIGSTOP)
	a.Kill()
	a.Launch()
	a.Stop("deaf", false)
	took := a.Until(30*time.Second, "the job to end", func() error {
		if left := len(a.Allocs("deaf", "complete")); left != deaf {
			return fmt.Errorf("%d of %d are complete", left, deaf)
		}
		if left := a.Processes(); len(left) > 0 {
			return fmt.Errorf("processes %v are left", left)
		}
		return nil
	})
	if limit := timeout + 30*time.Second; took > limit {
		t.Errorf("the end took %s, want at most %s", took, limit)
	}
	kit.Measured(t, fmt.Sprintf("supervising processes stopped %d times: %s; the job ended in %s", stops, sum, took.Round(10*time.Millisecond)))
}

// some is about half of a list.
func some(dice *rand.Rand, pids []int) (out []int) {
	for _, pid := range pids {
		if dice.IntN(2) == 0 {
			out = append(out, pid)
		}
	}
	return out
}

func send(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, s)
	}
}
