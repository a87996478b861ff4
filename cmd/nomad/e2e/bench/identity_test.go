package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// BenchmarkIdentityStart prints how much longer a job takes from its registration until its task runs with two signed
// identities, one in the environment and one as a file, than without. The jobs are registered in turn; the first decile of
// each counts, which has the fewest waits for the disk and the processor.
func BenchmarkIdentityStart(b *testing.B) {
	const jobs = 100
	a := kit.Start(b)
	keyed(a)
	var took [2][]time.Duration
	for i := range jobs {
		for turn := range 2 {
			which := (turn + i) % 2
			id := fmt.Sprintf("job-%d-%d", which, i)
			job := kit.ShellJob(id, "exec sleep 1000")
			if which == 1 {
				task := job.TaskGroups[0].Tasks[0]
				task.Identity = &api.WorkloadIdentity{Env: true}
				task.Identities = []*api.WorkloadIdentity{{Name: "x", Audience: []string{"example.com"}, File: true, TTL: time.Hour}}
			}
			began := time.Now()
			a.Register(job)
			becomes(a, id, "running")
			took[which] = append(took[which], time.Since(began))
			a.Stop(id, true)
		}
	}
	var quick [2]float64
	for i := range took {
		slices.Sort(took[i])
		quick[i] = ms(took[i][len(took[i])/10])
	}
	b.ReportMetric(quick[1], "ms-running")
	b.ReportMetric(quick[1]-quick[0], "ms-more")
	b.ReportMetric(0, "ns/op")
}
