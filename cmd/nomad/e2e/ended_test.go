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
)

// TestAgentKilledWhileManyEnd: an attempt that started or ended is neither run again nor lost, whenever the agent was
// killed.
func TestAgentKilledWhileManyEnd(t *testing.T) {
	a := kit.Start(t)
	const many = 150
	kills := kit.Rounds(t, "E2E_KILLS", 6)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	j := kit.ShellJob("short", fmt.Sprintf(
		`echo $NOMAD_ALLOC_ID >> %[1]s/starts; sleep $(( $(od -An -N1 -tu1 /dev/urandom) %% 8 )); echo $NOMAD_ALLOC_ID >> %[1]s/ends`, a.Dir))
	kind, count, attempts := "batch", many, 2
	j.Type, j.TaskGroups[0].Count, j.TaskGroups[0].RestartPolicy.Attempts = &kind, &count, &attempts
	for _, file := range []string{"starts", "ends"} {
		if err := os.WriteFile(a.Dir+"/"+file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a.Register(j)
	for range kills {
		pause := time.NewTimer(time.Duration(dice.Int64N(int64(1500 * time.Millisecond)))) // the moment is what is tried
		<-pause.C
		a.Kill()
		a.Launch()
	}
	var all []*api.AllocationListStub
	a.Until(60*time.Second, "all to be complete", func() error {
		if all = a.Allocs("short", "complete"); len(all) != many {
			return fmt.Errorf("%d are", len(all))
		}
		return nil
	})
	for _, file := range []string{"starts", "ends"} {
		body, err := os.ReadFile(a.Dir + "/" + file)
		if err != nil {
			t.Fatal(err)
		}
		times := map[string]int{}
		for id := range strings.FieldsSeq(string(body)) {
			times[id]++
		}
		for _, s := range all {
			if n := times[s.ID]; n != 1 {
				t.Errorf("%s has %s %d times", file, s.ID, n)
				for _, e := range s.TaskStates["main"].Events {
					t.Log(e.Type, e.DisplayMessage)
				}
			}
		}
		if len(times) != many {
			t.Errorf("%s names %d allocations, want %d", file, len(times), many)
		}
	}
}
