package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/acl/policy"
)

// thousand are policies of many teams, each with a namespace of its own and globs.
func thousand(b *testing.B) []policy.Named {
	var all []policy.Named
	for i := range 1000 {
		p := parse(b, fmt.Sprintf(`
			namespace "team-%d" { policy = "write" }
			namespace "team-%d-*" { policy = "read" }
			node_pool "pool-%d" { policy = "read" }`, i, i, i%10))
		all = append(all, policy.Named{Name: fmt.Sprintf("team-%d", i), Policy: p})
	}
	return append(all, policy.Named{Name: "all", Policy: parse(b, `namespace "*" { policy = "read" } namespace "*-prod" { policy = "deny" } namespace "a*b*c" {}`)})
}

func BenchmarkCompilePolicies(b *testing.B) {
	all := thousand(b)
	const batch = 100
	for b.Loop() {
		began := time.Now()
		for range batch {
			policy.Compile(all...)
		}
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000/batch, "ms/compile")
	}
}

func BenchmarkAllows(b *testing.B) {
	r := policy.Compile(thousand(b)...)
	right := api.Right{On: api.OnNamespace, Any: []string{"register-job", "submit-job"}}
	const batch = 100_000
	for name, namespace := range map[string]string{"exact": "team-500", "glob": "team-500-web-7", "none": "other-namespace"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				began := time.Now()
				for range batch {
					r.Allows(right, namespace)
				}
				b.ReportMetric(float64(time.Since(began).Nanoseconds())/batch, "ns/decision")
			}
		})
	}
}
