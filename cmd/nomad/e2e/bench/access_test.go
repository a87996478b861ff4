package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// BenchmarkAccessControlStart prints how much later a new agent that is server and client has a ready node with access
// control than without, of the quickest starts of each. With it, the first token is made meanwhile.
func BenchmarkAccessControlStart(b *testing.B) {
	kit.WithoutACL(b, "it is compared with the case without")
	const rounds = 9
	var took [2][]time.Duration
	for range rounds {
		for guarded := range 2 {
			a := kit.Prepare(b)
			if guarded == 1 {
				a = kit.PrepareGuarded(b)
			}
			began := time.Now()
			a.Spawn()
			soon(b, func() bool {
				nodes, _, err := a.API.Nodes().List(nil)
				return err == nil && len(nodes) == 1 && nodes[0].Status == "ready"
			})
			took[guarded] = append(took[guarded], time.Since(began))
			a.Kill()
		}
	}
	b.ReportMetric(ms(slices.Min(took[1])), "ms-node-ready")
	b.ReportMetric(ms(slices.Min(took[1])-slices.Min(took[0])), "ms-more")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAccessControlRegister prints how much longer a job takes from its registration to its allocation, as a client
// sees it, with a token that has some policies than without access control. Both agents of a pair get jobs in turn. The
// first decile of all pairs counts: what access control costs is in each figure, and the others have waits for the disk and
// the processor, too.
func BenchmarkAccessControlRegister(b *testing.B) {
	kit.WithoutACL(b, "it is compared with the case without")
	const pairs, jobs, policies = 9, 60, 10
	var took [2][]time.Duration
	for range pairs {
		open, guarded := kit.Start(b), kit.PrepareGuarded(b)
		guarded.Launch()
		token := guarded.ClientToken("team", `namespace "default" { policy = "write" }`)
		for i := range policies {
			name := fmt.Sprint("team-", i)
			guarded.ClientToken(name, fmt.Sprintf(`namespace "team-%d-*" { policy = "write" }`, i))
			token.Policies = append(token.Policies, name)
		}
		if _, _, err := guarded.API.ACLTokens().Update(token, nil); err != nil {
			b.Fatal(err)
		}
		keyed(open)
		keyed(guarded)
		guarded.API.SetSecretID(token.SecretID)
		for i := range jobs {
			for turn := range 2 {
				which := (turn + i) % 2
				took[which] = append(took[which], placed(b, []*kit.Agent{open, guarded}[which], fmt.Sprint("job-", i)))
			}
		}
		open.Kill()
		guarded.Kill()
	}
	var quick [2]float64
	for i := range took {
		slices.Sort(took[i])
		quick[i] = ms(took[i][len(took[i])/10])
	}
	b.ReportMetric(quick[1], "ms-placed")
	b.ReportMetric(100*(quick[1]/quick[0]-1), "%-more")
	b.ReportMetric(0, "ns/op")
}

// placed registers a job and returns when it has an allocation. Before it returns, the allocation is complete.
func placed(b *testing.B, a *kit.Agent, id string) time.Duration {
	job, kind := kit.ShellJob(id, "exit 0"), "batch"
	job.Type = &kind
	began := time.Now()
	a.Register(job)
	for q := (&api.QueryOptions{WaitTime: 5 * time.Second}); ; {
		allocs, meta, err := a.API.Jobs().Allocations(id, true, q)
		if err != nil {
			b.Fatal(err)
		}
		if len(allocs) > 0 {
			break
		}
		q.WaitIndex = meta.LastIndex
	}
	took := time.Since(began)
	becomes(a, id, "complete")
	return took
}
