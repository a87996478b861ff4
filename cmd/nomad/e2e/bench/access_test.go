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
// control than without. With it, the first token is made meanwhile.
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
	b.ReportMetric(ms(median(took[1])), "ms-node-ready")
	b.ReportMetric(ms(median(took[1])-median(took[0])), "ms-more")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAccessControlRegister prints how much longer a job takes from its registration to its allocation, as a client
// sees it, with a token that has some policies than without access control. Both agents of a pair get jobs in turn. The
// figure is that of the middle one of several pairs, because agents differ more from each other than access control costs.
func BenchmarkAccessControlRegister(b *testing.B) {
	kit.WithoutACL(b, "it is compared with the case without")
	const pairs, jobs, policies = 9, 60, 10
	var with, more []time.Duration
	var ratios []float64
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
		var took [2][]time.Duration
		for i := range jobs {
			for turn := range 2 {
				which := (turn + i) % 2
				took[which] = append(took[which], placed(b, []*kit.Agent{open, guarded}[which], fmt.Sprint("job-", i)))
			}
		}
		with = append(with, median(took[1]))
		more = append(more, median(took[1])-median(took[0]))
		ratios = append(ratios, float64(median(took[1]))/float64(median(took[0])))
		open.Kill()
		guarded.Kill()
	}
	slices.Sort(ratios)
	b.ReportMetric(ms(median(with)), "ms-placed")
	b.ReportMetric(ms(median(more)), "ms-more")
	b.ReportMetric(100*(ratios[pairs/2]-1), "%-more")
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
