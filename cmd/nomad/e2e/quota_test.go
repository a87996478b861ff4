package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

const teamQuota = `name = "team"
limit {
  region = "global"
  region_limit {
    memory = 50
  }
}
`

// TestNamespacesShareAQuota: two namespaces share 50 MB. The job of the second is blocked with the reason, and runs when
// the first stops.
func TestNamespacesShareAQuota(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	spec := filepath.Join(a.Dir, "quota.hcl")
	if err := os.WriteFile(spec, []byte(teamQuota), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		out, code := a.Run(args...)
		if code != want {
			t.Fatalf("%v: exit %d: %s", args, code, out)
		}
		return out
	}
	run(0, "quota", "apply", spec)
	for _, name := range []string{"one", "two"} {
		run(0, "namespace", "apply", "-quota", "team", name)
		j := kit.ShellJob("sleeper-"+name, "exec sleep 600")
		j.Namespace, j.TaskGroups[0].Tasks[0].Resources.MemoryMB = &name, new(30)
		if _, _, err := a.API.Jobs().Register(j, nil); err != nil {
			t.Fatal(err)
		}
		if name == "one" {
			a.Until(30*time.Second, "the first job to run", func() error { return runsIn(a, name) })
		}
	}
	reason := "team: memory exhausted (60 needed > 50 limit)"
	a.Until(30*time.Second, "the second job to be blocked", func() error {
		evals, _, err := a.API.Jobs().Evaluations("sleeper-two", &api.QueryOptions{Namespace: "two"})
		if err != nil {
			return err
		}
		for _, e := range evals {
			if e.Status == "blocked" && e.QuotaLimitReached == "team" && e.StatusDescription == "quota limit hit: "+reason {
				return nil
			}
		}
		return fmt.Errorf("no evaluation is blocked by the quota: %d evaluations", len(evals))
	})
	if out := run(0, "job", "status", "-namespace", "two", "sleeper-two"); !strings.Contains(out, "Quota limit hit \""+reason+"\"") {
		t.Errorf("job status: %s", out)
	}
	if out := run(0, "quota", "status", "team"); !strings.Contains(out, "30 / 50") {
		t.Errorf("quota status: %s", out)
	}
	if out := run(1, "quota", "delete", "team"); !strings.Contains(out, "is used by the namespaces one, two") {
		t.Errorf("quota delete: %s", out)
	}
	run(0, "job", "stop", "-namespace", "one", "sleeper-one")
	a.Until(30*time.Second, "the second job to run", func() error { return runsIn(a, "two") })
}

// runsIn answers an error until the job of the namespace runs.
func runsIn(a *kit.Agent, namespace string) error {
	all, _, err := a.API.Jobs().Allocations("sleeper-"+namespace, true, &api.QueryOptions{Namespace: namespace})
	if err != nil {
		return err
	}
	for _, stub := range all {
		if stub.ClientStatus == "running" {
			return nil
		}
	}
	return fmt.Errorf("%d allocations, none runs", len(all))
}
