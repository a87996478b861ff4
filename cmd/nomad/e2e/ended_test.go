package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// killsAtOnce is how often the agent is killed while the tasks of one job end.
const killsAtOnce = 6

// TestAgentKilledWhileManyEnd: an attempt that started or ended is neither run again nor lost, whenever the agent was
// killed.
func TestAgentKilledWhileManyEnd(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	const many = 150
	kills, dice := soaktest.Rounds(1, 5)*killsAtOnce, seeded(t)
	var sum tally
	for round := 0; round*killsAtOnce < kills; round++ {
		s := shortTasks(a, fmt.Sprintf("short-%d", round), many, 8)
		for range min(killsAtOnce, kills-round*killsAtOnce) {
			moment(dice, 1500*time.Millisecond)
			a.Kill()
			a.Launch()
		}
		sum.add(s.once(t, a, 60*time.Second))
	}
	kit.Measured(t, fmt.Sprintf("agent killed %d times: %s", kills, sum))
}

// seeded is randomness that can be repeated.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// moment lets a random time pass: the moment is what is tried.
func moment(dice *rand.Rand, limit time.Duration) {
	pause := time.NewTimer(time.Duration(dice.Int64N(int64(limit))))
	<-pause.C
}

// tally counts what has become of tasks.
type tally struct{ tasks, twice, lost int }

func (s *tally) add(other tally) {
	s.tasks, s.twice, s.lost = s.tasks+other.tasks, s.twice+other.twice, s.lost+other.lost
}

func (s tally) String() string {
	return fmt.Sprintf("%d tasks, %d run twice, %d lost", s.tasks, s.twice, s.lost)
}

// short is a batch job whose tasks write down that they began and ended.
type short struct {
	id    string
	dir   string
	count int
}

// shortTasks registers a job of so many tasks that each take a random time of less than so many seconds.
func shortTasks(a *kit.Agent, id string, count, seconds int) *short {
	return shortJob(a, id, a.Dir, count, fmt.Sprintf("sleep $(( $(od -An -N1 -tu1 /dev/urandom) %% %d ))", seconds))
}

// shortJob registers a job of so many tasks, which write to a directory what they do.
func shortJob(a *kit.Agent, id, dir string, count int, script string) *short {
	s := &short{id, dir, count}
	for _, what := range []string{"starts", "ends"} {
		_ = os.WriteFile(s.file(what), nil, 0o600)
	}
	j := kit.ShellJob(id, fmt.Sprintf(`echo $NOMAD_ALLOC_ID >> %s; %s; echo $NOMAD_ALLOC_ID >> %s`, s.file("starts"), script, s.file("ends")))
	kind, attempts := "batch", 2
	j.Type, j.TaskGroups[0].Count, j.TaskGroups[0].RestartPolicy.Attempts = &kind, &count, &attempts
	a.Register(j)
	return s
}

func (s *short) file(what string) string { return fmt.Sprintf("%s/%s-%s", s.dir, s.id, what) }

// complete waits until all tasks are, by the servers' word.
func (s *short) complete(a *kit.Agent, limit time.Duration) (all []*api.AllocationListStub) {
	a.Until(limit, "all tasks of "+s.id+" to be complete", func() error {
		if all = a.Allocs(s.id, "complete"); len(all) != s.count {
			return fmt.Errorf("%d are", len(all))
		}
		return nil
	})
	return all
}

// once waits until all tasks are complete, and tells of those that began or ended more than once, or never.
func (s *short) once(t *testing.T, a *kit.Agent, limit time.Duration) tally {
	t.Helper()
	all := s.complete(a, limit)
	out := tally{tasks: s.count}
	for _, what := range []string{"starts", "ends"} {
		body, err := os.ReadFile(s.file(what))
		if err != nil {
			t.Fatal(err)
		}
		times := map[string]int{}
		for id := range strings.FieldsSeq(string(body)) {
			times[id]++
		}
		for _, stub := range all {
			n := times[stub.ID]
			switch {
			case n == 1:
				continue
			case n > 1 && what == "starts":
				out.twice++
			case n == 0:
				out.lost++
			}
			t.Errorf("the %s of %s have %s %d times", what, s.id, stub.ID, n)
			for _, e := range stub.TaskStates["main"].Events {
				t.Log(e.Type, e.DisplayMessage)
			}
		}
		if len(times) != s.count {
			t.Errorf("the %s of %s name %d allocations, want %d", what, s.id, len(times), s.count)
		}
	}
	return out
}
